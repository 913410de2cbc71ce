"""Strided tensors that are taken for contiguous ones, whatever an exercise computes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from course_lib.judging.spec import Case, Exercise, Mistake

IGNORED = "strides are ignored"


def as_contiguous(x: Any) -> Any:
    """Return what a kernel reads that takes a strided tensor for a contiguous one.

    Raises RuntimeError past the end of the memory.
    """
    if not hasattr(x, "as_strided"):
        return x
    return x.as_strided(x.shape, [math.prod(x.shape[i + 1 :]) for i in range(x.dim())])


def ignored(exercise: Exercise, case: Case) -> Iterator[Mistake]:
    """Yield the mistakes of taking the strided inputs of a case for contiguous.

    All of them, each alone, all but one: the strides of q alone are used for k and v, say.
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

        def model(*args: Any, _places: tuple[int, ...] = places, **kwargs: Any) -> Any:
            read = [as_contiguous(x) if i in _places else x for i, x in enumerate(args)]
            return exercise.answer(exercise.truth(*read, **kwargs))

        *others, last = (f"`{names[i]}`" for i in places)
        which = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        says = "not contiguous, and read as if contiguous: each tensor has strides of its own."
        yield Mistake(IGNORED, f"{which} {says}", model)
