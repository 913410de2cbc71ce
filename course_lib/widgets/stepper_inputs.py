"""What a stepper walks over: matrices, one head of many, masked scores, the rows on offer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from course_lib.attention import attention_float64, masks

MAX_ROWS = 16


def matrix(name: str, x: Any) -> np.ndarray:
    """Return an array or tensor as float64 (rows, head_dim). Raises ValueError, by ``name``."""
    if hasattr(x, "detach"):
        x = x.detach().cpu().double().numpy()
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or not x.size:
        raise ValueError(f"{name} must be a matrix (rows, head_dim), got shape {x.shape}.")
    if not np.isfinite(x).all():
        raise ValueError(f"{name} must be finite everywhere.")
    return x


def scores_and_answer(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool, scale: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the masked scores (n_q, n_k) and the all-at-once answer (n_q, d_v), float64."""
    truth, _ = attention_float64(q, k, v, causal=causal, scale=scale)
    scores = (1 / math.sqrt(q.shape[1]) if scale is None else scale) * (q @ k.T)
    if causal:
        scores[~masks.causal().dense(len(q), len(k))] = -np.inf
    return scores, truth


def one_head(q: Any, k: Any, v: Any, head: int) -> list[np.ndarray]:
    """Return q (n_q, d) of one head out of (..., n_q, d), and the k and v that it uses.

    ``head`` counts along the flattened front axes. Raises ValueError where there is no such head.
    """
    flat = []
    for name, x in (("q", q), ("k", k), ("v", v)):
        x = x.detach().cpu().double() if hasattr(x, "detach") else x
        x = np.asarray(x, dtype=np.float64)
        if x.ndim < 2:
            raise ValueError(f"{name} must have shape (..., rows, head_dim), got {x.shape}.")
        flat.append(x.reshape(-1, *x.shape[-2:]))
    heads, kv_heads = len(flat[0]), len(flat[1])
    if not isinstance(head, int) or not 0 <= head < heads:
        raise ValueError(f"head must be between 0 and {heads - 1}, got {head!r}.")
    if heads % kv_heads or len(flat[2]) != kv_heads:
        raise ValueError("k and v must have a number of heads that divides q's.")
    shared = head * kv_heads // heads
    chosen = zip("qkv", flat, (head, shared, shared), strict=True)
    return [matrix(name, x[number]) for name, x, number in chosen]


def chosen_rows(rows: Sequence[int] | None, n_q: int) -> list[int]:
    """Return the rows to offer, by default evenly spread ones. Raises ValueError for others."""
    if rows is None:
        return sorted(set(np.linspace(0, n_q - 1, min(n_q, MAX_ROWS)).round().astype(int).tolist()))
    rows = [int(row) for row in rows]
    if not rows or len(rows) > MAX_ROWS or not all(0 <= row < n_q for row in rows):
        raise ValueError(f"rows must be 1 to {MAX_ROWS} numbers from 0 to {n_q - 1}, got {rows}.")
    return rows
