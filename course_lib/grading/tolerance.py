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
    """Return whether two answers agree to three digits (nested, NaN equal to NaN)."""
    a, b = flat(a), flat(b)
    return a is not None and b is not None and _alike(a, b) and bool(_near(a, b).all())


def resembles(result: Any, wrong: Any, expected: Any) -> bool:
    """Return whether ``result`` looks like ``wrong``, the answer of a known mistake.

    They must agree to three digits wherever both are finite, and some of what is wrong in
    ``result`` must be explained: equal to ``wrong`` there, and not to ``expected``. Where only
    one of the two is finite (a mistake guarded against NaN, say) nothing is asked.
    """
    leaves = [flat(x) for x in (result, wrong, expected)]
    if None in leaves or not _alike(leaves[0], leaves[1]):
        return False
    result, wrong, expected = leaves
    near = _near(result, wrong)
    if not _alike(wrong, expected):
        return bool(near.all())
    finite = np.isfinite(_numbers(result)) & np.isfinite(_numbers(wrong))
    return bool(near[finite].all() and (near & ~_near(wrong, expected)).any())


def has_numbers(x: Any) -> bool:
    """Return whether an answer holds anything but NaN and infinities."""
    leaves = flat(x) or []
    numbers = _numbers(leaves)
    return not numbers.size or bool(np.isfinite(numbers).any())


def flat(x: Any) -> list[Any] | None:
    """Return the leaves of a nested answer, arrays as their shape and numbers; None if neither."""
    if isinstance(x, dict):
        x = [leaf for key in sorted(x, key=str) for leaf in (str(key), x[key])]
    if isinstance(x, tuple | list):
        leaves = [flat(item) for item in x]
        return None if None in leaves else [leaf for part in leaves for leaf in part]
    if isinstance(x, str | bool):
        return [str(x)]
    try:
        x = as_float64(x)
    except (TypeError, ValueError):
        return None
    return [str(x.shape), *x.ravel()]


def _alike(a: list[Any], b: list[Any]) -> bool:
    """Return whether two answers have the same form, and the same words where they have words."""

    def words(leaves: list[Any]) -> list[tuple[int, str]]:
        return [(i, leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, str)]

    return len(a) == len(b) and words(a) == words(b)


def _numbers(leaves: list[Any]) -> np.ndarray:
    return np.array([leaf for leaf in leaves if not isinstance(leaf, str)], dtype=np.float64)


def _near(a: list[Any], b: list[Any]) -> np.ndarray:
    atol = 1e-3 * _scales(b) + 1e-9
    return np.isclose(_numbers(a), _numbers(b), rtol=1e-3, atol=atol, equal_nan=True)


def _scales(leaves: list[Any]) -> np.ndarray:
    """Return for each number the largest finite one of its array; a lone number is its own."""
    scales: list[float] = []
    array: list[float] = []
    for leaf in [*leaves, ""]:
        if isinstance(leaf, str):
            scales += [max((abs(x) for x in array if np.isfinite(x)), default=0.0)] * len(array)
            array = []
        else:
            array.append(leaf)
    return np.array(scales)
