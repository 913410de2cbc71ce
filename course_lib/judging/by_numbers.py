"""Mistakes that need no model of an exercise: the wrong numbers themselves tell them."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.judging.spec import Mistake
from course_lib.judging.tolerance import as_float64, flat, has_numbers

_EXACT = 2.0**53  # up to here float64 has every whole number
_ROWS = 8  # of which each lost something, before they tell more than chance does
_MOST_LOST = 0.9  # of a row


def _known(name: str, says: str) -> Mistake:
    return Mistake(name, says, lambda *_args, **_kwargs: None)


INT32 = _known(
    "an integer of 32 bits overflows",
    "what is counted goes beyond 2**31 - 1, and begins again at -2**31: count in Python's "
    "integers, or in int64.",
)
ADDED = _known(
    "something is added to the sum",
    "each row is right but for a factor of its own below 1, as it is where a number is added to "
    "the sum of its weights (or a weight, as that of a key past the end): divide by the sum "
    "itself. Where that may be 0, choose another divisor by `where`.",
)
UNSET = _known(
    "a sum is added to memory that holds anything",
    "all that the kernel stores there it adds, and nobody set what was there before: begin with "
    "torch.zeros, not with torch.empty.",
)


def added_to_nothing(result: Any, ledger: Any) -> bool:
    """Whether there is nothing but NaN where a kernel read as much as it stored: by atomics."""
    if has_numbers(result) or not getattr(ledger, "launches", None):
        return False
    read, written = ledger.read, ledger.written
    return any(written.values()) and all(read.get(x) == n for x, n in written.items() if n)


def overflows(result: Any, answer: Any) -> bool:
    """Whether the wrong whole numbers are the right ones as far as 32 bits hold them."""
    got, truth = flat(result), flat(answer)
    if got is None or truth is None or got.words != truth.words:
        return False
    large = (np.abs(truth.numbers) >= 2.0**31) & (np.abs(truth.numbers) < _EXACT)
    off = large & (got.numbers != truth.numbers) & np.isfinite(got.numbers)
    got_off, right = got.numbers[off], truth.numbers[off]
    whole = right % 1 == 0
    got_off, right = got_off[whole], right[whole]
    signed = (right + 2.0**31) % 2.0**32 - 2.0**31
    held = (got_off == signed) | (got_off == right % 2.0**32)
    return bool(held.any() and ((got_off - right) % 2.0**32 == 0).all())  # sums of such as well


def lost_shares(result: Any, answer: Any) -> np.ndarray | None:
    """Return which share of each row (..., d) is lost, if it is right but for that, else None.

    Of several results the first is looked at: beside it stands the lse. A row of one number tells
    nothing, nor does one that is right.
    """
    if isinstance(result, tuple | list) and isinstance(answer, tuple):
        result, answer = (x[0] if x else None for x in (result, answer))
    try:
        got, truth = as_float64(result), as_float64(answer)
    except (TypeError, ValueError):
        return None
    if got.shape != truth.shape or got.ndim < 1 or not np.isfinite(got).all():
        return None
    if got.shape[-1] < 2:
        return np.empty(0)
    got, truth = (x.reshape(-1, x.shape[-1]) for x in (got, truth))
    there = np.isfinite(truth).all(axis=1) & truth.any(axis=1)
    got, truth = got[there], truth[there]
    lost = 1 - (got * truth).sum(axis=1) / (truth**2).sum(axis=1)
    rest = np.abs(got - truth * (1 - lost[:, None])).max(axis=1, initial=0.0)
    error = np.abs(got - truth).max(axis=1, initial=0.0)
    short = any(word in str(getattr(result, "dtype", "")) for word in ("16", "32"))
    noise = (2.0**-20 if short else 2.0**-45) * np.abs(truth).max(axis=1, initial=0.0)
    told: np.ndarray = lost[error > 20 * noise]
    if (rest > 0.02 * error + noise).any() or (told <= 0).any() or (told > _MOST_LOST).any():
        return None
    return told


def are_shrunk(lost: np.ndarray) -> bool:
    """Whether the shares that rows lose tell of a sum: one factor for all would be another."""
    return len(lost) >= _ROWS and bool(lost.std() > 0.02 * lost.mean())
