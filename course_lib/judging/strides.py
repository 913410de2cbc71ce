"""Tensors that are read, or stored, at other strides than their own, whatever is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from course_lib.judging.spec import Case, Exercise, Mistake

IGNORED = "strides are ignored"
NO_ROW_STRIDE = "the row stride is missing"
NUMBERS_APART = "a row's numbers are taken to lie side by side"
STRIDES_EXCHANGED = "two strides are exchanged"
AS_IF = "not contiguous, and read as if contiguous: each tensor has strides of its own."


def as_contiguous(x: Any) -> Any:
    """Return what a kernel reads that takes a strided tensor for a contiguous one.

    Raises RuntimeError past the end of the memory.
    """
    if not hasattr(x, "as_strided"):
        return x
    return x.as_strided(x.shape, [math.prod(x.shape[i + 1 :]) for i in range(x.dim())])


def stored_as_contiguous(o: np.ndarray, like: Any) -> np.ndarray:
    """Return what stands in ``empty_like(like)`` if ``o`` is stored there row after row."""
    if not hasattr(like, "untyped_storage"):
        return o
    import torch

    strides = [step * o.itemsize for step in torch.empty_like(like).stride()]
    return np.lib.stride_tricks.as_strided(o.ravel(), o.shape, strides)


def known(exercise: Exercise, case: Case) -> Iterator[Mistake]:
    """Yield the mistakes about the strides of a case's inputs, and of what lies as they do."""
    yield from _ignored(exercise, case)
    yield from _side_by_side(exercise, case)
    if exercise.kind == "kernel" and NO_ROW_STRIDE not in {m.name for m in exercise.mistakes}:
        dims = [x.dim() if hasattr(x, "as_strided") else 0 for x in case.args]
        if (most := max(dims, default=0)) > 1:  # a tile is loaded of those: in one way
            says = "rows begin at their number, not at their number times the stride."
            places = tuple(i for i, dim in enumerate(dims) if dim == most)
            for read in (_rows_by_one, _numbers_by_one):
                yield Mistake(NO_ROW_STRIDE, says, _Read(exercise, places, read))


def _ignored(exercise: Exercise, case: Case) -> Iterator[Mistake]:
    """Yield the mistakes of taking the strided inputs of a case for contiguous.

    All of them, each alone, all but one: the strides of q alone are used for k and v, say. And
    what is made `empty_like` one of them as well.
    """
    strided = [
        i for i, x in enumerate(case.args) if hasattr(x, "as_strided") and not x.is_contiguous()
    ]
    names = exercise.names(case)
    alone = [(i,) for i in strided]
    but_one = [tuple(i for i in strided if i != j) for j in strided]
    for places in dict.fromkeys([tuple(strided), *alone, *but_one]):
        if not places:
            return
        *others, last = (f"`{names[i]}`" for i in places)
        which = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        read = _Read(exercise, places, as_contiguous)
        for model in (read, replace(read, stored=True)):
            yield Mistake(IGNORED, f"{which} {AS_IF}", model)


def _side_by_side(exercise: Exercise, case: Case) -> Iterator[Mistake]:
    """Yield the mistakes of taking the last stride for 1: of all inputs, and of each alone."""
    apart = [i for i, x in enumerate(case.args) if hasattr(x, "as_strided") and x.dim() > 1]
    apart = [i for i in apart if case.args[i].stride(-1) != 1 and exercise.kind == "kernel"]
    names = exercise.names(case)
    for places in dict.fromkeys([tuple(apart), *((i,) for i in apart)]):
        which = " and ".join(f"`{names[i]}`" for i in places)
        says = f"in {which}: from one number of a row to the next it is stride(-1), not 1."
        read = _Read(exercise, places, lambda x: x.as_strided(x.shape, (*x.stride()[:-1], 1)))
        if places:
            yield Mistake(NUMBERS_APART, says, read)


def _rows_by_one(x: Any) -> Any:
    return x.as_strided(x.shape, (*x.stride()[:-2], 1, x.stride(-1)))


def _numbers_by_one(x: Any) -> Any:
    """Return ``x`` read by rows that are numbered through all its heads."""
    *outer, row, column = x.stride()
    return x.as_strided(x.shape, (*(step // row for step in outer), 1, column))


@dataclass(frozen=True, eq=False)
class _Read:
    """The answer to inputs of which those at ``places`` are ``read`` otherwise.

    ``stored``: what has the shape of one of them was made like it, and is stored as contiguous.
    Only how it is stored differs then, so the answer to the last inputs is kept for both.
    """

    exercise: Exercise
    places: Sequence[int]
    read: Callable[[Any], Any]
    stored: bool = False
    _last: list[Any] = field(default_factory=list)

    def as_called(self, **_how: Any) -> _Read:
        """Return this model: as `misread.Model`, it only reads its inputs."""
        return self

    def with_twins(self, *args: Any, **how: Any) -> tuple[Any, list[_Read]]:
        """Return the answer, and that nobody else is known to give it."""
        return self(*args, **how), [self]

    def __call__(self, *args: Any, **how: Any) -> Any:
        """Return the answer."""
        inputs = [*args, *how.values()]
        if not self._last or any(a is not b for a, b in zip(self._last[0], inputs, strict=False)):
            theirs = [self.read(x) if i in self.places else x for i, x in enumerate(args)]
            answer = self.exercise.answer(self.exercise.truth(*theirs, **how))
            self._last[:] = inputs, answer
        answer = self._last[1]
        if not self.stored:
            return answer
        likes = {tuple(args[i].shape): args[i] for i in reversed(self.places)}
        several = isinstance(answer, tuple)
        laid = [
            stored_as_contiguous(x, likes.get(np.shape(x)))
            for x in (answer if several else (answer,))
        ]
        return tuple(laid) if several else laid[0]
