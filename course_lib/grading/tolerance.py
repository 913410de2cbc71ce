"""When is an answer right? The course's standard, in one place (lesson 00 explains it).

Truth is float64 attention on the already rounded inputs. An answer may be off by twice what
PyTorch's own eager attention is off in the same dtype, plus a little. Comparisons are written
``~(error <= allowed)``, so that NaN fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_HALF_DIGITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def as_float64(x: Any) -> np.ndarray:
    """Return a NumPy array, a tensor of any dtype, or a number as a float64 array."""
    if hasattr(x, "detach"):
        x = x.detach().cpu().double().numpy()
    return np.asarray(x, dtype=np.float64)


def allowed_error(truth: np.ndarray, eager: np.ndarray | None, dtype: str) -> float:
    """Return the largest absolute error that still counts as right.

    ``truth`` is float64, ``eager`` the same computation done eagerly in ``dtype`` (None: use the
    scale of the truth). fp32 adds 1e-5; half types add twice the rounding of the truth itself.
    """
    finite = np.abs(truth[np.isfinite(truth)])
    biggest = float(finite.max(initial=0.0))
    atol = 2 * _HALF_DIGITS[dtype] * biggest if dtype in _HALF_DIGITS else 1e-5
    if eager is None:
        return atol + 1e-5 * biggest
    difference = np.abs(eager - truth)
    return 2 * float(difference[np.isfinite(difference)].max(initial=0.0)) + atol


def wrong_places(got: np.ndarray, truth: np.ndarray, allowed: float) -> np.ndarray:
    """Return a boolean array: True where ``got`` is not the truth within ``allowed``.

    Infinities must agree exactly (an empty row's lse is -inf); NaN is wrong everywhere.
    """
    with np.errstate(invalid="ignore"):
        near = np.abs(got - truth) <= allowed
    return ~(near | (np.isinf(truth) & (got == truth)))


def same(a: Any, b: Any) -> bool:
    """Return whether two answers agree to three digits: used to recognise a known mistake.

    Nested tuples, lists and dicts are compared piece by piece; NaN equals NaN here, because a
    mistake that produces NaN is recognised by its NaN.
    """
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str) and a == b
    try:
        a, b = as_float64(a), as_float64(b)
    except (TypeError, ValueError):
        return a is b
    if a.shape != b.shape:
        return False
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-3 * scale + 1e-9, equal_nan=True))
