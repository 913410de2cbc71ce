"""A cache in one byte a number, in NumPy: int8 and fp8 (e4m3), a scale for each row (lesson 12).

A row is what one token has in one head: (d,). Its scale is its largest number over the largest that
the small type holds, so that a row with an outlier costs itself and no other. Rows are multiplied
by their scales again only where they are used: K's scale multiplies a score, V's a weight.

Sources: Dettmers et al. 2022 ("LLM.int8()", arXiv:2208.07339: a scale a row, outliers);
Micikevicius et al. 2022 (arXiv:2209.05433: e4m3); Liu et al. 2024 ("KIVI", arXiv:2402.02750:
quantised caches).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from course_lib.attention._shapes import check_qkv
from course_lib.attention.truth import attention_float64

INT8_MAX = 127  # of -128 .. 127: so that -x has a number, too
E4M3_MAX = 448.0

Rows = tuple[np.ndarray, np.ndarray]  # the small numbers (..., d) and the scales (..., 1)


def int8_rows(x: np.ndarray) -> Rows:
    """Quantise rows x (..., d): int8 (..., d) and float32 scales (..., 1), x ~ numbers * scale.

    No number is off by more than half a scale. A row of zeros stays zeros, with scale 1.
    """
    scale = _scale(x, INT8_MAX)
    return np.rint(x / scale).astype(np.int8), scale


def fp8_rows(x: np.ndarray) -> Rows:
    """Quantise rows x (..., d): numbers that e4m3 holds, as float32, and scales (..., 1)."""
    scale = _scale(x, E4M3_MAX)
    return e4m3(x / scale), scale


def e4m3(x: np.ndarray) -> np.ndarray:
    """Round to the nearest number of the 8-bit float e4m3, ties to even; float32.

    It has 4 bits of exponent and 3 of mantissa: eight numbers from a power of two to the next, from
    2**-6 on, evenly spaced ones below, and 448 as the largest, where what is larger ends.
    """
    _, exponent = np.frexp(x)  # |x| = m 2**exponent with 0.5 <= m < 1
    step = np.exp2(np.maximum(exponent - 1, -6) - 3.0)
    return np.clip(np.rint(x / step) * step, -E4M3_MAX, E4M3_MAX).astype(np.float32)


def dequantise(rows: Rows) -> np.ndarray:
    """Return the rows (..., d) that the small numbers stand for, float32."""
    numbers, scale = rows
    return numbers.astype(np.float32) * scale


def quantised_decode(
    q: np.ndarray, k_rows: Rows, v_rows: Rows, *, scale: float | None = None
) -> np.ndarray:
    """Attend over quantised rows, which are never multiplied out: o (B, H, n_q, d_v).

    q is (B, H, n_q, d); k_rows and v_rows hold (B, H_kv, n, d) and (B, H_kv, n, d_v) with scales
    (B, H_kv, n, 1); H_kv divides H. ``scale`` None means 1/sqrt(d). float32, or float64 if q is.
    Raises ValueError for shapes that do not fit.
    """
    (k, k_scale), (v, v_scale) = k_rows, v_rows
    group = check_qkv(q, k, v)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    packed = q.astype(np.result_type(q, np.float32))
    packed = packed.reshape(*k.shape[:2], group * q.shape[2], q.shape[3])
    s = scale * (packed @ k.mT.astype(packed.dtype)) * k_scale.mT  # (B, H_kv, group n_q, n)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    o = (p * v_scale.mT) @ v.astype(packed.dtype)
    return o.reshape(*q.shape[:-1], v.shape[-1])


def quantisation_error(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, rows: Callable[[np.ndarray], Rows] = int8_rows
) -> float:
    """Return how far o is off with K and V kept by ``rows``: largest error over largest o.

    q is (B, H, n_q, d), k (B, H_kv, n, d), v (B, H_kv, n, d_v). Both answers are float64, so that
    nothing but the cache makes the difference.
    """
    exact, _ = attention_float64(q, k, v)
    kept = quantised_decode(q.astype(np.float64), rows(k), rows(v))
    return float(np.abs(kept - exact).max() / np.abs(exact).max())


def _scale(x: np.ndarray, largest: float) -> np.ndarray:
    """Return for each row what its largest number is divided by to become ``largest``."""
    found = np.abs(x).max(axis=-1, keepdims=True).astype(np.float32) / np.float32(largest)
    return np.where(found == 0, np.float32(1), found)
