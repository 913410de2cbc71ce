"""Naive attention in NumPy: the score matrix is written down (lesson 01).

Source: Vaswani et al. 2017, section 3.2.1.
"""

from __future__ import annotations

import math

import numpy as np


def softmax_rows(scores: np.ndarray) -> np.ndarray:
    """Turn each row into weights that sum to 1; same shape and dtype.

    Subtracting the row's maximum changes nothing in algebra and keeps exp from overflowing.
    """
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def naive(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Attention in three lines: q (..., n_q, d), k and v (..., n_k, d) -> (..., n_q, d).

    The dtype is that of the inputs. For grouped heads and lse see ``tiled``.
    """
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (..., n_q, n_k)
    weights = softmax_rows(scores)  # (..., n_q, n_k), rows sum to 1
    return weights @ v  # (..., n_q, d)


def naive_scaled(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, scale: float | None = None
) -> np.ndarray:
    """``naive`` with the factor on the scores spelled out; None means 1/sqrt(d)."""
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])  # a NumPy sqrt would turn float32 to float64
    scores = q @ k.mT * float(scale)
    return softmax_rows(scores) @ v


def naive_masked(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    allowed: np.ndarray,
    *,
    scale: float | None = None,
) -> np.ndarray:
    """``naive_scaled`` where query i sees key j only if ``allowed[..., i, j]``.

    ``allowed`` is boolean and broadcasts to (..., n_q, n_k); anything else is a TypeError.
    A query without any key gets zeros, not NaN.
    """
    if allowed.dtype != bool:
        raise TypeError(f"allowed must be boolean (True: may look), got {allowed.dtype}")
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    scores = q @ k.mT * float(scale)
    scores = np.where(allowed, scores, -np.inf)  # exp(-inf) = 0: no weight
    row_max = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    row_max = np.where(row_max == -np.inf, 0, row_max)  # no key: -inf - -inf is NaN
    e = np.exp(scores - row_max)
    l_sum = e.sum(axis=-1, keepdims=True)
    weights = e / np.where(l_sum == 0, 1, l_sum)  # no key: 0 / 1
    return weights @ v
