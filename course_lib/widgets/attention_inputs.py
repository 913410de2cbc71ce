"""What a widget on one head of attention is given: arrays or tensors, checked, as float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from course_lib.attention import attention_float64


def matrix(name: str, x: Any) -> np.ndarray:
    """Return a NumPy array or a tensor as float64 (rows, d). Raises ValueError if it is none."""
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
        hidden = np.arange(len(k)) > np.arange(len(q))[:, None] + len(k) - len(q)
        scores[hidden] = -np.inf
    return scores, truth


def one_head(q: Any, k: Any, v: Any, head: int) -> list[np.ndarray]:
    """Return one head's q, k and v, float64; query heads may share one. Raises ValueError."""
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
    return [
        matrix("q", flat[0][head]),
        matrix("k", flat[1][shared]),
        matrix("v", flat[2][shared]),
    ]
