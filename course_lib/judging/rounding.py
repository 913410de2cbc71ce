"""To which precision wrong numbers were rounded, here and in other cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, islice
from typing import Any

import numpy as np

from course_lib.judging.seen import Seen, numbers_in
from course_lib.judging.spec import Case, Exercise, Mistake
from course_lib.judging.tolerance import (
    FEWEST_NUMBERS,
    Precision,
    flat,
    is_exact,
    may_be_rounded,
    rounded,
    same,
)
from course_lib.sandbox.inputs import is_array

_TO_BE_CERTAIN = 2  # further cases that are rounded alike
_MOST_IN_HALF = 65504.0


def rounding(precision: Precision, in_a_kernel: bool) -> Mistake:
    """Return the mistake of rounding to a precision; only kernels have a ``tl.dot``."""
    dot = ", or `tl.dot` multiplies float32 tiles in tf32" if in_a_kernel else ""
    where = {"half": f"float16 or bfloat16{dot}", "single": "float32"}[precision]
    return Mistake(
        f"{precision} precision",
        f"every number is a little off, some up and some down, as far as {precision} precision "
        f"reaches: somewhere numbers are rounded to {where}. Compute in the precision of the task.",
    )


def rounded_to(
    exercise: Exercise, failed: Seen, run: Callable[[Case], Any]
) -> tuple[Precision | None, bool]:
    """Return the precision to which this result was rounded, and those of two other cases too.

    And whether that is certain: it is not where a case is as good as if nothing was rounded.
    """
    if not failed.case.args:  # a question: it is answered on paper
        return None, False
    if numbers_in(failed.answer) < FEWEST_NUMBERS:
        return _rounded_together(exercise, failed, run), False
    if not (precision := _rounded(failed, failed.result)):
        return None, False
    drawn = exercise.cases(np.random.default_rng(1))
    certain = True
    others = islice((c for c in drawn if c.name != failed.case.name), 2 * _TO_BE_CERTAIN)
    for i, case in enumerate(others):
        seen, result = Seen.of(exercise, case), run(case)
        if _rounded(seen, result) == precision:
            continue
        if i < _TO_BE_CERTAIN and not seen.accepts(result):
            return None, False
        certain = certain and (precision == "single" or not is_exact(result, seen.answer))
    return precision, certain


def would_show(passed: Seen, failed: Seen) -> bool:
    """Whether a case that passed, like the failed one, does not if its inputs are in half."""
    args, kwargs = passed.case.args, passed.case.kwargs
    if _dtypes(args) != _dtypes(failed.case.args):
        return False
    if not 1e-2 < _size(passed) / max(_size(failed), 1e-300) < 1e2:
        return False
    try:
        truth = passed.exercise.truth(*map(_in_half_and_back, args), **kwargs)
        return not passed.is_right(passed.exercise.answer(truth))
    except Exception:  # rounded, they may be no inputs any more
        return False


def _size(seen: Seen) -> float:
    laid = flat(seen.answer)
    return 0.0 if laid is None else float(laid.scales.max(initial=0.0))


def _dtypes(args: Sequence[Any]) -> list[str]:
    return [str(getattr(x, "dtype", "")) for x in args]


def _in_half_and_back(x: Any) -> Any:
    """Return an array or tensor of floats as far as half precision holds its numbers."""
    if not is_array(x) or "float" not in str(x.dtype):
        return x
    with np.errstate(over="ignore"):
        return (
            x.astype(np.float16).astype(x.dtype) if hasattr(x, "astype") else x.half().to(x.dtype)
        )


def _is_half(result: Any) -> bool:
    """Whether it is handed in so: then it is no wonder that it is rounded."""
    return "16" in str(getattr(result, "dtype", ""))


def _rounded(seen: Seen, result: Any) -> Precision | None:
    """Return the precision to which a result was rounded, or some of several: others are right.

    What is handed in as half says nothing, unless the inputs are as short.
    """
    answer, inputs = seen.answer, seen.case.args
    off = _off(result, answer, inputs)
    if not off or (any(_is_half(one) for one, _ in off) and not any(map(_is_half, inputs))):
        return None
    results, answers = map(list, zip(*off, strict=True))
    return rounded(results, answers, inputs) or _input_rounded(seen, result)


def _off(result: Any, answer: Any, inputs: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return a result beside the answer, or those of several that are off."""
    several = isinstance(result, tuple) and isinstance(answer, tuple)
    pairs = [*zip(result, answer, strict=False)] if several else [(result, answer)]
    return [pair for pair in pairs if may_be_rounded(*pair, inputs)]


def _input_rounded(seen: Seen, result: Any) -> Precision | None:
    """Return the precision in which one input, taken so, explains all but a hundredth of errors.

    They need not be errors of all kinds: of few values each error is the same in many rows.
    """
    got, truth = flat(result), flat(seen.answer)
    args = seen.case.args
    short: tuple[tuple[Precision, Any], ...] = (("single", np.float32), ("half", np.float16))
    for precision, dtype in short:
        for i, x in enumerate(args):
            if not isinstance(x, np.ndarray) or x.dtype != np.float64:
                continue
            with np.errstate(over="ignore"):
                read = [*args[:i], x.astype(dtype).astype(x.dtype), *args[i + 1 :]]
            made = seen.exercise.answer(seen.exercise.truth(*read, **seen.case.kwargs))
            there = flat(made)
            if got is None or truth is None or there is None or got.words != there.words:
                return None
            off, left = (float(np.abs(got.numbers - x.numbers).max()) for x in (truth, there))
            if left < off / 100:
                return precision
    return None


def _rounded_together(
    exercise: Exercise, failed: Seen, run: Callable[[Case], Any]
) -> Precision | None:
    """Return the precision to which answers were rounded that are a number or a few: many tell."""
    if not same(failed.result, failed.answer):
        return None
    inputs = failed.case.args
    if not (told := _off(failed.result, failed.answer, inputs)):
        return None  # a race, say: it is not a number that is wrong
    drawn = (case for seed in count(1) for case in exercise.cases(np.random.default_rng(seed)))
    for case in islice(drawn, 2 * FEWEST_NUMBERS):
        seen, result = Seen.of(exercise, case), run(case)
        if result is None or seen.is_right(result) or not _in_half(seen.answer):
            continue  # no rounding shows, or it makes something infinite
        if not same(result, seen.answer):
            return None
        told += _off(result, seen.answer, inputs)
        if sum(numbers_in(answer) for _, answer in told) >= 3 * FEWEST_NUMBERS:
            break  # of fewer, many err to one side by chance
    results, answers = map(list, zip(*told, strict=True))
    return rounded(results, answers, inputs)


def _in_half(answer: Any) -> bool:
    """Whether half precision has numbers as large as those of an answer."""
    laid = flat(answer)
    return laid is not None and bool((np.abs(laid.numbers) <= _MOST_IN_HALF).all())
