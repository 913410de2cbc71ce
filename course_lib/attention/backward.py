"""The backward pass in NumPy, tile by tile: P is computed again from the saved lse (lesson 09).

No (n_q, n_k) array exists here either. With s = scale * q k^T, p = exp(s - lse) and o = p v,

    dV = P^T dO        dP = dO V^T        dS = P * (dP - delta)        delta = rowsum(dO * O)
    dK = scale dS^T Q  dQ = scale dS K

Two walks, so that nobody adds to what another tile owns: a tile of keys stays while the queries
pass by (dK and dV), then a tile of queries stays while the keys pass by (dQ). Each makes S and dP
for itself: 7 products a tile instead of 5.

Source: Dao et al. 2022 (arXiv:2205.14135), appendix B.4. There, and in FlashAttention-2
(arXiv:2307.08691, algorithm 2), the keys are outside for all three and dQ is added to in memory.
"""

from __future__ import annotations

import math

import numpy as np

from course_lib.attention._shapes import check_block, check_qkv
from course_lib.attention.masks import Mask, Tile, everything
from course_lib.attention.tiled import tile_slices


def backward(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    o: np.ndarray,
    lse: np.ndarray,
    do: np.ndarray,
    dlse: np.ndarray | None = None,
    *,
    mask: Mask | None = None,
    scale: float | None = None,
    block_q: int = 64,
    block_k: int = 64,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of `tiled` by q, k and v, from what it was given and what it returned.

    q (..., H, n_q, d), k (..., H_kv, n_k, d), v (..., H_kv, n_k, d_v), ``mask`` and ``scale`` as in
    `tiled`; o (..., H, n_q, d_v) and lse (..., H, n_q) as it returned them. ``do`` is the gradient
    of the loss by o, ``dlse`` by lse (None: nothing depends on lse).

    Returns dq, dk, dv with the shapes and dtypes of q, k, v; the sums are float32, or float64 if an
    input is. A row without any key moves nothing. Raises ValueError for shapes that do not fit or
    tiles without rows.
    """
    group = check_qkv(q, k, v)
    check_block("block_q", block_q)
    check_block("block_k", block_k)
    for name, x, shape in (
        ("o", o, (*q.shape[:-1], v.shape[-1])),
        ("do", do, (*q.shape[:-1], v.shape[-1])),
        ("lse", lse, q.shape[:-1]),
    ):
        if x.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {x.shape}")
    mask = everything() if mask is None else mask
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)

    dtypes = [np.result_type(x, np.float16) for x in (q, k, v)]
    state = np.result_type(q, k, v, np.float32)
    q, k, v, o, lse, do = (x.astype(state) for x in (q, k, v, o, lse, do))
    if group > 1:  # a kernel shares K and V and indexes them with head // group
        k, v = (np.repeat(x, group, axis=-3) for x in (k, v))

    delta = (do * o).sum(axis=-1)  # (..., n_q): how far dP of a row is off what softmax keeps
    if dlse is not None:
        delta = delta - dlse
    lse = np.where(lse == -np.inf, np.inf, lse)  # no key at all: exp(s - inf) = 0
    tiles = _Tiles(q, k, v, do, lse, delta, mask, scale)
    dk, dv = _by_key_tiles(tiles, block_q, block_k)
    dq = _by_query_tiles(tiles, block_q, block_k)

    if group > 1:  # every query head of a group moves the same keys
        dk, dv = (_summed_by_group(x, group) for x in (dk, dv))
    dq, dk, dv = (x.astype(dtype) for x, dtype in zip((dq, dk, dv), dtypes, strict=True))
    return dq, dk, dv


def _by_key_tiles(tiles: _Tiles, block_q: int, block_k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return dK and dV: keys outside, queries inside; each tile is written once."""
    dk, dv = np.zeros_like(tiles.k), np.zeros_like(tiles.v)
    for cols in tile_slices(tiles.n_k, block_k):
        for rows in tile_slices(tiles.n_q, block_q):
            if (made := tiles.p_and_ds(rows, cols)) is None:
                continue
            p, ds = made  # (..., block_q, block_k)
            dv[..., cols, :] += p.mT @ tiles.do[..., rows, :]
            dk[..., cols, :] += ds.mT @ tiles.q[..., rows, :]
    return tiles.scale * dk, dv


def _by_query_tiles(tiles: _Tiles, block_q: int, block_k: int) -> np.ndarray:
    """Return dQ: queries outside, keys inside, as in the forward pass."""
    dq = np.zeros_like(tiles.q)
    for rows in tile_slices(tiles.n_q, block_q):
        for cols in tile_slices(tiles.n_k, block_k):
            if (made := tiles.p_and_ds(rows, cols)) is None:
                continue
            dq[..., rows, :] += made[1] @ tiles.k[..., cols, :]
    return tiles.scale * dq


class _Tiles:
    """Everything that a tile of P and dS is made from."""

    def __init__(
        self,
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        do: np.ndarray,
        lse: np.ndarray,
        delta: np.ndarray,
        mask: Mask,
        scale: float,
    ) -> None:
        self.q, self.k, self.v, self.do, self.lse, self.delta = q, k, v, do, lse, delta
        self.mask, self.scale = mask, scale
        self.n_q, self.n_k = q.shape[-2], k.shape[-2]

    def p_and_ds(self, rows: slice, cols: slice) -> tuple[np.ndarray, np.ndarray] | None:
        """Return a tile of P and of dS (..., block_q, block_k), None if no pair in it is seen."""
        bounds = rows.start, rows.stop, cols.start, cols.stop
        tile = self.mask.classify(*bounds, self.n_q, self.n_k)
        if tile is Tile.SKIP:
            return None
        s = self.scale * (self.q[..., rows, :] @ self.k[..., cols, :].mT)
        if tile is Tile.PARTIAL:
            i, j = np.arange(self.n_q)[rows], np.arange(self.n_k)[cols]
            s = np.where(self.mask.allowed(i, j, self.n_q, self.n_k), s, -np.inf)
        p = np.exp(s - self.lse[..., rows, None])  # of the whole row: no softmax of the tile
        dp = self.do[..., rows, :] @ self.v[..., cols, :].mT
        return p, p * (dp - self.delta[..., rows, None])


def _summed_by_group(x: np.ndarray, group: int) -> np.ndarray:
    """Return (..., H, n, d) summed to (..., H / group, n, d)."""
    shape = (*x.shape[:-3], x.shape[-3] // group, group, *x.shape[-2:])
    return x.reshape(shape).sum(axis=-3)
