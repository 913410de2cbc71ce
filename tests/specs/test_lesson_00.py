"""Exercise 0.1: the solution passes, and everything else gets the verdict it deserves."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import report_on, solutions, stubs

from course_lib.checking import report_for
from course_lib.judging.report import Verdict

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_solution_passes(seed):
    assert report_for(solutions(0).echo, seed=seed).passed


def test_the_stub_is_not_attempted():
    assert report_for(stubs(0).echo).verdict is Verdict.NOT_ATTEMPTED


@pytest.mark.parametrize(
    ("answer", "broken"),
    [
        (lambda x: (one for one in x), "returns a value"),
        (lambda x: np.append(x, 0), "the shape"),
        (lambda x: np.full_like(x, x.mean()), "the values"),
        (lambda x: -x, "the values"),
    ],
)
def test_wrong_answers_are_incorrect_for_the_right_reason(answer, broken):
    answer.__name__ = "echo"
    for seed in SEEDS:
        report = report_for(answer, seed=seed)
        assert report.verdict is Verdict.INCORRECT
        assert report.failed_property == broken


def test_an_exception_is_an_error_with_the_students_line():
    report = report_on("0.1/wrong/name_error")
    assert report.verdict is Verdict.ERROR
    assert "return y" in report.text()
