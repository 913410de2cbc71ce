"""An answer in the form in which it was asked for: another type of Python's is no mistake.

Two values may come as a list, or as an array of two; a yes or no as NumPy's. What the numbers are
is for the judges.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.sandbox.inputs import is_tensor


def as_meant(result: Any, wanted: Any) -> Any:
    """Return ``result`` with the containers of ``wanted`` where it has as many parts."""
    if isinstance(wanted, bool) and isinstance(result, np.bool_):
        return bool(result)
    if isinstance(wanted, dict) and isinstance(result, dict):
        return {key: as_meant(x, wanted[key]) if key in wanted else x for key, x in result.items()}
    if not isinstance(wanted, tuple | list):
        return result
    # one without elements may have rows without end: the lengths come first
    fits = _is_table(result) and len(result) == len(wanted)
    if fits and all(map(_is_of_numbers, wanted)):
        result = list(result)
    if not isinstance(result, tuple | list) or len(result) != len(wanted):
        return result
    return type(wanted)(as_meant(x, one) for x, one in zip(result, wanted, strict=True))


def _is_table(x: Any) -> bool:
    return (type(x) is np.ndarray or is_tensor(x)) and x.ndim > 0


def _is_of_numbers(wanted: Any) -> bool:
    """Return whether this is a number, or a nest of tuples of them, and no array."""
    if isinstance(wanted, tuple | list):
        return all(map(_is_of_numbers, wanted))
    return isinstance(wanted, int | float | np.number) and not isinstance(wanted, bool)
