"""Exercise 11.2: double every number."""

from __future__ import annotations

from numpy.random import Generator

from course_lib.judging.judges import within
from course_lib.judging.spec import HARD, Case, Exercise, Mistake


def _cases(rng: Generator) -> list[Case]:
    n = int(rng.integers(5, 12))
    return [
        Case(f"a row of {n} numbers", (rng.standard_normal(n),)),
        Case("a table of 3 rows and 4 columns", (rng.standard_normal((3, 4)),)),
    ]


EXERCISE = Exercise.of(
    "11.2",
    cases=_cases,
    truth=lambda x: x + x,
    judge=within(1e-9),
    spared=dict.fromkeys(HARD, "there are no scores, no tiles and no sums"),
    mistakes=(Mistake("squared", "Twice x is x + x, not x times x.", lambda x: x * x),),
)
