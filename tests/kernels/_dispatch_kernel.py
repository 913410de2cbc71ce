"""The smallest kernel whose warps part, for `small_run.py`: no memory is shared by what they do."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def store(o, number: gl.constexpr):
    """Write one number to a place of its own."""
    gl.store(o + number - 1, number * 1.0)


@gluon.jit
def part_and_store(o):
    """Three groups of warps, each with a store of its own."""
    one: gl.constexpr = 1
    two: gl.constexpr = 2
    three: gl.constexpr = 3
    gl.warp_specialize(
        [(store, (o, one)), (store, (o, two)), (store, (o, three))],
        worker_num_warps=[4, 1],
        worker_num_regs=[24, 24],
    )
