"""Whose answer does a wrong one look like? The known mistakes, run on the input that failed."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.judging.spec import Case, Exercise, Mistake
from course_lib.judging.tolerance import has_numbers, resembles, same
from course_lib.sandbox.inputs import copy_inputs, is_array

_MOST_NUMBERS = 1 << 20  # in a result that is compared with known mistakes


def recognise(
    exercise: Exercise, case: Case, passed: list[Case], result: Any, expected: Any
) -> Mistake | None:
    """Return the known mistake that explains this result best, or None.

    Of those that give this result here, one that was invisible on the cases that passed comes
    first: NaN has many causes, and this tells them apart. An answer of nothing but NaN that no
    such mistake explains is given no name. If none gives the whole result, one is asked for
    that gives its first wrong value: o decides, even if lse is wrong in a way of its own.
    """
    answer = exercise.answer(expected)
    if _size(result) > _MOST_NUMBERS:  # no mistake gives as much, and comparing it takes long
        return None
    if same(result, answer):  # what was found is not about values
        return None
    wrongs = [(mistake, _mistaken(mistake, case)) for mistake in exercise.mistakes]
    alike = [m for m, wrong in wrongs if resembles(result, wrong, answer)]
    first = _first_wrong(result, answer)
    if not alike and first is not None:
        result = result[first]
        alike = [m for m, wrong in wrongs if resembles(result, _item(wrong, first), answer[first])]
    for mistake in alike:
        if all(_is_invisible(exercise, mistake, c) for c in passed):
            return mistake
    return alike[0] if alike and has_numbers(result) else None


def _size(x: Any) -> int:
    """Return how many numbers a nested answer holds."""
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, tuple | list):
        return sum(map(_size, x))
    return int(np.prod(x.shape)) if is_array(x) else 1


def _first_wrong(result: Any, answer: Any) -> int | None:
    """Return which array of a tuple of arrays is the first that is wrong; None if no tuple."""
    if not (isinstance(result, tuple) and isinstance(answer, tuple) and len(result) == len(answer)):
        return None
    if not all(is_array(x) for x in (*result, *answer)):
        return None
    return next((i for i, x in enumerate(result) if not same(x, answer[i])), None)


def _item(wrong: Any, index: int) -> Any:
    return wrong[index] if isinstance(wrong, tuple) else object()


def _is_invisible(exercise: Exercise, mistake: Mistake, case: Case) -> bool:
    truth = exercise.answer(exercise.truth(*case.args, **case.kwargs))
    return same(_mistaken(mistake, case), truth)


def _mistaken(mistake: Mistake, case: Case) -> Any:
    """Return what the mistake makes of a case; an object that resembles nothing if it cannot."""
    args, kwargs = copy_inputs((case.args, dict(case.kwargs)))
    try:
        with np.errstate(all="ignore"):
            return mistake.model(*args, **kwargs)
    except Exception:  # a mistake that does not apply to this input
        return object()
