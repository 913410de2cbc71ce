"""Exercise of lesson 00, start here."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import faults
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.spec import HARD, Case, Exercise, Mistake, Observed


def _cases(rng: Generator) -> list[Case]:
    n = int(rng.integers(5, 12))
    return [
        Case(f"a row of {n} numbers", (rng.standard_normal(n),)),
        Case(f"another row of {n} numbers", (rng.standard_normal(n),)),
        Case("a table of 3 rows and 4 columns", (rng.standard_normal((3, 4)),)),
        Case("whole numbers", (rng.integers(1, 100, n),)),
        Case("an array with one number in it", (rng.standard_normal(1).astype(np.float32),)),
        Case("a number alone, shape ()", (np.array(rng.standard_normal()),)),
        Case("True and False", (np.arange(n) % 3 == 1,)),
        Case(
            "whole numbers that no float holds", (2**53 + rng.integers(1, 99, (2, 2, 2)) * 2 + 1,)
        ),
        Case("four dimensions", (rng.standard_normal((1, 2, 1, 3)),)),
        Case("NaN and infinity among the numbers", (np.array([[1, np.nan], [-np.inf, 2]]),)),
        *[
            Case(f"dtype {dtype}", (rng.standard_normal((2, 3)).astype(dtype),))
            for dtype in ("float16", ">f4")
        ],
        *[
            Case(f"no numbers, shape {shape}", (np.zeros(shape),), blind_to=frozenset({"zeros"}))
            for shape in ((0,), (0, 3), (3, 0), (2, 0, 3))
        ],
        Case("30 000 numbers", (rng.standard_normal((100, 300)),)),
    ]


def _judge(case: Case, observed: Observed, expected: np.ndarray) -> Finding | None:
    got = observed.result
    if fault := faults.find_fault(got, expected):
        return fault
    if not isinstance(got, np.ndarray):
        return Finding("the type", f"the result is a {type(got).__name__}, not a NumPy array.")
    if got.dtype != expected.dtype:
        says = f"the result has dtype {got.dtype}, not {expected.dtype}."
        return Finding("the dtype", says, numbers_right=True)
    if np.array_equal(got, expected, equal_nan=True):
        return None
    return array_finding(got, expected.astype(np.float64), relative=0.0) or Finding(
        "the values", "large whole numbers were rounded: do not make floats of them."
    )


def _same_shape(fill: Any) -> Any:
    return lambda x: np.full_like(x, fill)


EXERCISES = (
    Exercise.of(
        "0.1",
        cases=_cases,
        truth=lambda x: x,
        judge=_judge,
        spared=dict.fromkeys(HARD, "nothing is computed"),
        mistakes=(
            Mistake(
                "room without numbers",
                "The new array has the right shape; the numbers of x still have to get there.",
                _same_shape(0),
            ),
            Mistake("room without numbers", "The array holds ones, not x.", _same_shape(1)),
            Mistake("something is computed", "Return x as it is, not twice x.", lambda x: x + x),
        ),
    ),
)
