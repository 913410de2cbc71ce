"""One flash kernel, many orders: which program works on which tile, and which way it walks.

The arithmetic is rung 3's of `course_lib.kernels.ladder`; only orders differ.
"""

from __future__ import annotations

import torch

import course_lib  # noqa: F401  first: it chooses Triton's mode

# isort: split
import triton
import triton.language as tl

from course_lib.kernels.flash_forward import load_tile, store_tile
from course_lib.kernels.ladder import LOG2_E, add_keys, dot, empty_state, hide


# fmt: off
@triton.jit
def ordered_kernel(
    q, k, v, o, n, scale, heads, tiles,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr,
    TOGETHER: tl.constexpr, LONGEST_FIRST: tl.constexpr, FROM_END: tl.constexpr,
):
    """Programs go through TOGETHER heads at a time, among these head by head, then tile by tile."""
    t = tl.program_id(0)
    first = t // (tiles * TOGETHER) * TOGETHER
    width = tl.minimum(TOGETHER, heads - first)
    t -= first * tiles
    tile = t // width
    if LONGEST_FIRST:
        tile = tiles - 1 - tile
    offset = (first + t % width).to(tl.int64) * n * HEAD_DIM

    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q_tile = load_tile(q + offset, rows, n, HEAD_DIM, 1, HEAD_DIM)
    m, l_sum, acc = empty_state(BLOCK_Q, HEAD_DIM)
    end = n
    if CAUSAL:
        end = tl.minimum(n, (tile + 1) * BLOCK_Q)
    visits = tl.cdiv(end, BLOCK_K)
    for i in range(visits):
        start = i * BLOCK_K
        if FROM_END:
            start = (visits - 1 - i) * BLOCK_K
        keys = start + tl.arange(0, BLOCK_K)
        k_tile = load_tile(k + offset, keys, n, HEAD_DIM, 1, HEAD_DIM)
        v_tile = load_tile(v + offset, keys, n, HEAD_DIM, 1, HEAD_DIM)
        s = hide(dot(q_tile, tl.trans(k_tile)) * scale, rows, keys, n, n, CAUSAL)
        m, l_sum, acc = add_keys(m, l_sum, acc, s, v_tile)
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    store_tile(o + offset, acc / l_safe[:, None], rows, n, HEAD_DIM, 1, HEAD_DIM)
# fmt: on


def ordered(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    together: int = 1,
    longest_first: bool = False,
    from_end: bool = False,
    block_q: int = 128,
    block_k: int = 64,
) -> torch.Tensor:
    """Return o of contiguous (1, heads, n, d) tensors, computed in the given order."""
    heads, n, d = q.shape[1:]
    tiles = triton.cdiv(n, block_q)
    o = torch.empty_like(q)
    ordered_kernel[(tiles * heads,)](
        *(q, k, v, o, n, d**-0.5 * LOG2_E, heads, tiles),
        HEAD_DIM=d,
        BLOCK_Q=block_q,
        BLOCK_K=block_k,
        CAUSAL=causal,
        TOGETHER=together,
        LONGEST_FIRST=longest_first,
        FROM_END=from_end,
        num_warps=8,
        num_stages=3,
    )
    return o
