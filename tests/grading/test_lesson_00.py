"""Exercise 0.1: the solution passes, and everything else gets the verdict it deserves."""

from __future__ import annotations

import numpy as np
import pytest
from grading.helpers import solutions, stubs

from course_lib.grading.check import report_for
from course_lib.grading.report import Verdict

SEEDS = range(5)


def verdict_on(function, seed=1):
    function.__name__ = "echo"
    return report_for(function, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_solution_passes(seed):
    assert report_for(solutions(0).echo, seed=seed).passed


def test_the_stub_is_not_attempted():
    assert report_for(stubs(0).echo).verdict is Verdict.NOT_ATTEMPTED


@pytest.mark.parametrize(
    ("answer", "broken"),
    [
        (lambda x: None, "returns a value"),
        (lambda x: (one for one in x), "returns a value"),
        (lambda x: x, "returns new memory"),
        (lambda x: x[:], "returns new memory"),
        (lambda x: x.tolist(), "the type"),
        (lambda x: x.astype(np.float16), "the dtype"),
        (lambda x: np.append(x, 0), "the shape"),
        (lambda x: np.zeros_like(x), "the values"),
        (lambda x: np.full_like(x, x.mean()), "the values"),
        (lambda x: -x, "the values"),
        (lambda x: x.copy()[::-1], "the values"),
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_wrong_answers_are_incorrect_for_the_right_reason(answer, broken, seed):
    report = verdict_on(answer, seed)
    assert report.verdict is Verdict.INCORRECT
    assert report.failed_property == broken


def test_changing_the_input_is_noticed():
    def echo(x):
        y = x.copy()
        x[...] = 0
        return y

    assert verdict_on(echo).failed_property == "leaves its inputs alone"


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (lambda x: np.zeros_like(x), "room without numbers"),
        (lambda x: np.ones_like(x), "room without numbers"),
        (lambda x: 2 * x, "something is computed"),
    ],
)
def test_known_mistakes_are_named(answer, name):
    assert verdict_on(answer).misconception == name


def test_an_exception_is_an_error_with_the_students_line():
    def echo(x):
        return y  # noqa: F821

    report = verdict_on(echo)
    assert report.verdict is Verdict.ERROR
    assert "return y" in report.text()
