"""The smallest kernel whose warps part, for `small_run.py`: nothing is shared but the hand-over.

With MEET the four warps of a group also meet at a barrier of their own.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

threads_meet = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier


@gluon.jit
def fill(o, n, row, number: gl.constexpr, MEET: gl.constexpr):
    """Write a number to n places of its own."""
    for i in range(n):
        if MEET:
            threads_meet()
        gl.store(o + (row * 3 + number - 1) * n + i, number * 1.0)


@gluon.jit
def part_and_fill(o, count, MEET: gl.constexpr):
    """Three groups of warps. What they are told (o, n, row) passes through shared memory."""
    n = gl.load(count)  # known at run time alone, so it must be handed over
    row = gl.program_id(0)
    one: gl.constexpr = 1
    two: gl.constexpr = 2
    three: gl.constexpr = 3
    gl.warp_specialize(
        [
            (fill, (o, n, row, one, MEET)),
            (fill, (o, n, row, two, MEET)),
            (fill, (o, n, row, three, MEET)),
        ],
        worker_num_warps=[4, 1],
        worker_num_regs=[24, 24],
    )
