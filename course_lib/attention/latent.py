"""Latent attention in NumPy: a small row a token stands for K and V of all heads (lesson 12).

A cache keeps, for every token, a *latent* row of ``rank`` numbers and a rotary key of ``d_rope``.
Head h's key is w_uk[h] times the latent row, with the rotary key behind it, and its value w_uv[h]
times the latent row. Two ways to attend, which give the same:

- expanded: build K and V of all heads, then attend as ever;
- absorbed: q · (w_uk c) = (w_uk^T q) · c, so multiply q by w_uk once, and meet the cached rows as
  they are. All heads look at one row, which is key and value: multi-query attention.

The rotary part stands apart (is "decoupled") since a rotation by the key's position between q and
w_uk would have to be absorbed, too, and it is another one for every key.

Sources: DeepSeek-AI 2024, "DeepSeek-V2" (arXiv:2405.04434, section 2.1: formulas 9 to 19; rank 512,
rotary 64, heads of 128); Su et al. 2021 (arXiv:2104.09864, rotary positions); Shazeer 2019 (MQA).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from course_lib.attention.decode import decode


def latent_expanded(
    q_nope: np.ndarray,
    q_rope: np.ndarray,
    latent: np.ndarray,
    k_rope: np.ndarray,
    w_uk: np.ndarray,
    w_uv: np.ndarray,
) -> np.ndarray:
    """Attend with the newest token of each sequence, over K and V of all heads.

    q_nope (B, H, d_nope) and q_rope (B, H, d_rope) are the query; latent (B, n, rank) and k_rope
    (B, n, d_rope) the cache; w_uk (H, d_nope, rank) and w_uv (H, d_v, rank) the up-projections.
    q_rope and k_rope are rotated already. The scale is 1/sqrt(d_nope + d_rope).

    Returns o (B, H, d_v), float32, or float64 if an input is. Raises ValueError for shapes that do
    not fit.
    """
    q = np.concatenate([q_nope, q_rope], axis=-1)[:, :, None]  # (B, H, 1, d_nope + d_rope)
    k, v = expand(latent, k_rope, w_uk, w_uv)
    return decode(q, k, v)[0][:, :, 0]


def latent_absorbed(
    q_nope: np.ndarray,
    q_rope: np.ndarray,
    latent: np.ndarray,
    k_rope: np.ndarray,
    w_uk: np.ndarray,
    w_uv: np.ndarray,
) -> np.ndarray:
    """Attend to the cached rows as they are: the same as `latent_expanded`, without its K and V."""
    scale = 1 / math.sqrt(q_nope.shape[-1] + q_rope.shape[-1])  # not of the longer, absorbed query
    q, k, v = as_multi_query(q_nope, q_rope, latent, k_rope, w_uk)
    averaged = decode(q, k, v, scale=scale)[0][:, :, 0]  # (B, H, rank)
    return np.einsum("bhr,hvr->bhv", averaged, w_uv)


def expand(
    latent: np.ndarray, k_rope: np.ndarray, w_uk: np.ndarray, w_uv: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return K (B, H, n, d_nope + d_rope) and V (B, H, n, d_v) that the cached rows stand for."""
    nope, v = (latent[:, None] @ w.mT for w in (w_uk, w_uv))
    shared = np.broadcast_to(k_rope[:, None], (*nope.shape[:-1], k_rope.shape[-1]))
    return np.concatenate([nope, shared], axis=-1), v


def as_multi_query(
    q_nope: np.ndarray, q_rope: np.ndarray, latent: np.ndarray, k_rope: np.ndarray, w_uk: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the absorbed q (B, H, 1, rank + d_rope), and k and v of the one head that all share.

    k (B, 1, n, rank + d_rope) is the whole cached row, v (B, 1, n, rank) its first numbers: in
    DeepSeek-V2, 576 for the scores and 512 for the values.
    """
    absorbed = np.einsum("bhd,hdr->bhr", q_nope, w_uk)
    q = np.concatenate([absorbed, q_rope], axis=-1)[:, :, None]
    k = np.concatenate([latent, k_rope], axis=-1)[:, None]
    return q, k, k[..., : latent.shape[-1]]


def rotate(x: np.ndarray, positions: ArrayLike, base: float = 10_000.0) -> np.ndarray:
    """Return x (..., d), d even, with its pairs of numbers turned by its position (rotary, RoPE).

    Numbers 2i and 2i + 1 are turned by position * base ** (-2i / d). ``positions`` broadcasts to
    x's shape without the last axis. The product of two rotated rows depends on how far apart their
    positions are, and not on the positions.
    """
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"x must have an even number of columns, got {d}")
    angles = np.asarray(positions)[..., None] * base ** (-np.arange(0, d, 2) / d)  # (..., d / 2)
    first, second = x[..., 0::2], x[..., 1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    turned = np.stack([first * cos - second * sin, first * sin + second * cos], axis=-1)
    return turned.reshape(x.shape)
