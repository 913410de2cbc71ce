"""Tiled attention in NumPy: FlashAttention's algorithm, with no speed and nothing hidden.

The score matrix never exists: one (block_q, block_k) tile of it at a time does (lesson 04).

Source: Dao et al. 2022, Algorithm 1, in the loop order of FlashAttention-2 (Dao 2023, section 3.1):
Q tiles outside, K/V tiles inside, one division at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from course_lib.attention._shapes import check_block, check_qkv
from course_lib.attention.masks import Mask, Tile, everything
from course_lib.attention.online_softmax import finite_max


def tile_slices(n: int, block: int) -> Iterator[slice]:
    """Cut rows 0 .. n - 1 into tiles of ``block`` rows; the last one may be shorter."""
    return (slice(start, min(start + block, n)) for start in range(0, n, block))


def tiled(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    mask: Mask | None = None,
    scale: float | None = None,
    block_q: int = 64,
    block_k: int = 64,
    k_order: Sequence[int] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Attention tile by tile.

    q is (..., H, n_q, d), k is (..., H_kv, n_k, d), v is (..., H_kv, n_k, d_v); H_kv divides H;
    2-D means one head. ``mask`` comes from ``masks``, None allows everything; ``scale`` None means
    1/sqrt(d). ``k_order`` visits the K/V tiles in another order, a permutation of their numbers.

    Returns o (..., H, n_q, d_v) in the dtype of q and the natural-log lse (..., H, n_q). The state
    and lse are float32, or float64 if an input is. A row without any key has o = 0, lse = -inf.
    Raises ValueError for shapes that do not fit, tiles without rows or an order that misses one.
    """
    group = check_qkv(q, k, v)
    check_block("block_q", block_q)
    check_block("block_k", block_k)
    mask = everything() if mask is None else mask
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    n_q, n_k = q.shape[-2], k.shape[-2]
    k_tiles = _in_order(list(tile_slices(n_k, block_k)), k_order)

    state = np.result_type(q, k, v, np.float32)
    out = np.zeros((*q.shape[:-1], v.shape[-1]), np.result_type(q, np.float16))
    lse = np.zeros(q.shape[:-1], state)
    q, k, v = (x.astype(state) for x in (q, k, v))
    if group > 1:  # a kernel shares K and V and indexes them with head // group
        k, v = (np.repeat(x, group, axis=-3) for x in (k, v))

    for rows in tile_slices(n_q, block_q):
        q_tile = q[..., rows, :]  # (..., block_q, d)
        row_shape = q_tile.shape[:-1]
        m = np.full(row_shape, -np.inf, state)  # (..., block_q), no key yet
        l_sum = np.zeros(row_shape, state)  # (..., block_q)
        o = np.zeros((*row_shape, v.shape[-1]), state)  # (..., block_q, d_v)

        for cols in k_tiles:
            bounds = rows.start, rows.stop, cols.start, cols.stop
            tile = mask.classify(*bounds, n_q, n_k)
            if tile is Tile.SKIP:
                continue
            k_tile, v_tile = k[..., cols, :], v[..., cols, :]

            s = scale * (q_tile @ k_tile.mT)  # (..., block_q, block_k)
            if tile is Tile.PARTIAL:
                i, j = np.arange(n_q)[rows], np.arange(n_k)[cols]
                s = np.where(mask.allowed(i, j, n_q, n_k), s, -np.inf)
            m_new = np.maximum(m, s.max(axis=-1))
            shift = finite_max(m_new)  # m_new, or 0 if there is no key yet
            alpha = np.exp(m - shift)  # old scale -> new scale
            p = np.exp(s - shift[..., None])  # (..., block_q, block_k)
            l_sum = alpha * l_sum + p.sum(axis=-1)
            o = alpha[..., None] * o + p @ v_tile
            m = m_new

        l_sum = np.where(l_sum == 0, 1, l_sum)  # no key at all: 0 / 1
        out[..., rows, :] = o / l_sum[..., None]
        lse[..., rows] = m + np.log(l_sum)
    return out, lse


def _in_order(tiles: list[slice], order: Sequence[int] | None) -> list[slice]:
    if order is None:
        return tiles
    if sorted(order) != list(range(len(tiles))):
        raise ValueError(
            f"k_order must hold each of the {len(tiles)} K/V tile numbers once, got {list(order)}"
        )
    return [tiles[number] for number in order]
