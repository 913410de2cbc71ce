"""A case that was run, and what known mistakes make of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from course_lib.judging.spec import Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import (
    flat,
    has_numbers,
    noise_of,
    off_alike,
    off_by,
    resembles,
    same,
    share_explained,
)
from course_lib.sandbox.inputs import copy_inputs, is_array

NOTHING = object()  # what a mistake makes of a case in which it cannot be made


class Made(NamedTuple):
    """What a mistake makes of a case (``NOTHING``: it cannot be made), and that laid flat."""

    answer: Any
    laid: Any


@dataclass(frozen=True, eq=False)
class Seen:
    """A case that was run: the answer that is right, and the student's where that is wrong.

    ``fine``: what is wrong shows beyond the third digit alone, so answers are compared beyond it.
    """

    exercise: Exercise
    case: Case
    answer: Any
    result: Any = None
    passed: bool = True
    fine: bool = False
    _made: dict[Any, Made] = field(default_factory=dict, init=False, repr=False)
    _alike: dict[int, bool] = field(default_factory=dict, init=False, repr=False)  # by id of Made

    @classmethod
    def of(cls, exercise: Exercise, case: Case, fine: bool = False) -> Seen:
        """Return a case that passed."""
        answer = exercise.answer(exercise.truth(*case.args, **case.kwargs))
        return cls(exercise, case, answer, fine=fine)

    def __post_init__(self) -> None:
        """Take a list of numbers for the array that was asked for."""
        if isinstance(self.answer, np.ndarray) and isinstance(self.result, tuple | list):
            with contextlib.suppress(Exception):
                object.__setattr__(self, "result", np.asarray(self.result, dtype=np.float64))

    def answered(self, result: Any) -> Seen:
        """Return this case with what the student's function makes of it."""
        run = replace(self, result=result, passed=self.accepts(result))
        run._made.update(self._made)
        return run

    def accepts(self, result: Any) -> bool:
        """Whether this is right here: as good as the answer in numbers, or to the judge."""
        if not self.fine and same(result, self.answer):
            return True
        if shape(result) != shape(self.answer):
            return False
        return self.is_right(result) or (
            self.fine
            and not self._judged_alone
            and off_by(_laid(result), self.laid[1]) < (1e-5 if noise_of(result) > 1e-9 else 1e-9)
        )

    @cached_property
    def _judged_alone(self) -> bool:
        """Whether the judge finds nothing in the right answer, of which it sees no more."""
        return self.is_right(self.answer)

    def is_right(self, result: Any) -> bool:
        """Whether the judge finds nothing in it."""
        expected = self.exercise.truth(*self.case.args, **self.case.kwargs)
        try:
            return self.exercise.judge(self.case, Observed(result), expected) is None
        except Exception:  # a judge that looks at more than the result
            return False

    def made_by(self, mistake: Mistake) -> Made:
        """Return what the mistake makes of this case; what two make alike is computed once."""
        model: Any = mistake.model
        args, kwargs = self.case.args, self.case.kwargs
        reads_only = hasattr(model, "as_called")
        if reads_only:
            model = model.as_called(**kwargs)
        if model not in self._made:
            if reads_only:
                made = _mistaken(model.with_twins, args, kwargs)
                wrong, twins = (made, [model]) if made is NOTHING else made
            else:
                wrong, twins = _mistaken(model, *copy_inputs((args, dict(kwargs)))), [model]
            self._made.update(dict.fromkeys(twins, Made(wrong, _laid(wrong))))
        return self._made[model]

    @cached_property
    def laid(self) -> tuple[Any, Any]:
        """The result and the answer laid flat: hundreds of mistakes are compared with them."""
        return _laid(self.result), _laid(self.answer)

    def resembles(self, wrong: Made) -> bool:
        """Whether the result looks like what a mistake makes of this case: once for all twins."""
        if id(wrong) not in self._alike:
            result, answer = self.laid
            if self.fine:
                self._alike[id(wrong)] = off_alike(result, wrong.laid, answer, self.noise)
            else:
                self._alike[id(wrong)] = resembles(result, wrong.laid, answer)
        return self._alike[id(wrong)]

    @cached_property
    def noise(self) -> float:
        """How far rounding alone may leave the result from the right one, relative."""
        return noise_of(self.result)

    def share_explained(self, wrong: Made) -> float:
        """Return which share of what is wrong in the result is what a mistake makes of it."""
        result, answer = self.laid
        return share_explained(result, wrong.laid, answer)

    @property
    def inputs(self) -> dict[str, Any]:
        """What the function was given, by name."""
        return dict(zip(self.exercise.names(self.case), self.case.args, strict=False))

    @property
    def tells(self) -> bool:
        """Whether a wrong result has numbers: many mistakes make NaN alone."""
        return not self.passed and has_numbers(self.result)


def is_formula(case: Case) -> bool:
    """Whether a case holds numbers alone, so that the answer to many of them costs nothing."""
    return bool(case.args) and all(map(_is_of_numbers, case.args))


def _is_of_numbers(x: Any) -> bool:
    if isinstance(x, tuple | list):
        return all(map(_is_of_numbers, x))
    return isinstance(x, int | float)


def is_plain(x: Any) -> bool:
    """Whether this is made of numbers and words: to answer such a case costs nothing, either."""
    if isinstance(x, dict):
        return all(map(is_plain, [*x, *x.values()]))
    if type(x) in (tuple, list):  # no walk: its calls may be many
        return all(map(is_plain, x))
    return x is None or isinstance(x, int | float | str)


def shape(x: Any) -> Any:
    """Return the shape of an array, () of anything else."""
    return getattr(x, "shape", ())


def numbers_in(x: Any) -> int:
    """Return how many numbers a nested answer holds."""
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, tuple | list):
        return sum(map(numbers_in, x))
    return int(np.prod(x.shape)) if is_array(x) else 1


def _mistaken(model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what a mistake's model makes of a call, ``NOTHING`` if it cannot be made there."""
    try:
        with np.errstate(all="ignore"):
            return model(*args, **kwargs)
    except Exception:  # a mistake that does not apply to this input
        return NOTHING


def _laid(x: Any) -> Any:
    """Return an answer laid flat, as it is where that cannot be."""
    return flat(x) or x
