"""Answers in which nothing was computed fail every check: None, zeros, mean(V), V, the input."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers import first_cases

from course_lib.checking import report_for
from course_lib.judging import faults
from course_lib.judging.report import Verdict
from course_lib.judging.spec import Case
from course_lib.judging.tolerance import as_float64, same
from course_lib.specs import EXERCISES

CODE = [exercise for exercise in EXERCISES if exercise.kind != "question"]


@cache
def cases_of(exercise):
    """Return each case with its right answer, as far as that is an array (the first one)."""
    drawn = exercise.cases(np.random.default_rng(3))
    answers = ((case, answer_to(exercise, case)) for case in drawn)
    return [(case, as_float64(answer)) for case, answer in answers if faults.is_array(answer)]


def answer_to(exercise, case):
    """Return the right answer, of several the first."""
    answer = exercise.answer(exercise.truth(*case.args, **case.kwargs))
    return answer[0] if isinstance(answer, tuple) else answer


ARRAYS = [e for e in CODE if faults.is_array(answer_to(e, first_cases(e)[0]))]


def inputs_of(case):
    """Return the arrays that go in; a list of arrays (piles, values) is put together."""
    joined = [np.concatenate(x) if isinstance(x, list) else x for x in case.args]
    return [as_float64(x) for x in joined if faults.is_array(x)]


NULLS = {
    "zeros": lambda inputs, shape: np.zeros(shape),
    "mean(V)": lambda inputs, shape: np.broadcast_to(average(inputs[-1], len(shape)), shape),
    "V": lambda inputs, shape: fitting(inputs[-1], shape),
    "the input": lambda inputs, shape: fitting(inputs[0], shape),
}


def average(x, ndim):
    """Return the mean over the rows of V; of a vector, its mean."""
    return x.mean(axis=-2, keepdims=ndim > 1) if x.ndim > 1 else x.mean()


def fitting(x, shape):
    if x.shape != shape:
        raise ValueError
    return x


COPIES = ("0.1", "6.1")  # their answer is the input
PAIRS = [
    pytest.param(exercise, null, id=f"{exercise.id}-{null}")
    for exercise in ARRAYS
    for null in (NULLS if exercise.id not in COPIES else ["zeros"])
]


@pytest.mark.parametrize("exercise", CODE, ids=lambda exercise: exercise.id)
@pytest.mark.usefixtures("unnamed")
def test_doing_nothing_fails(exercise):
    scope: dict = {}
    exec(f"def {exercise.function}{exercise.signature}:\n    return None\n", scope)
    report = report_for(scope[exercise.function], seed=1)
    assert report.verdict is Verdict.INCORRECT, report.text()


@pytest.mark.parametrize(("exercise", "null"), PAIRS)
def test_no_case_is_idle(exercise, null):
    """Each single case tells a null model from the truth, unless it says that it cannot.

    Kernels have a case or two for their precision, with weights that are all alike: of theirs,
    one must tell.
    """
    idle, compared = [], 0
    for case, truth in cases_of(exercise):
        try:
            nothing = NULLS[null](inputs_of(case), truth.shape)
        except ValueError:
            continue  # of another shape than the answer: that fails anyway
        compared += 1
        if null not in case.blind_to and same(nothing, truth):
            idle.append(case.name)
    assert not idle or (exercise.kind == "kernel" and len(idle) < compared), idle


@pytest.mark.parametrize(("exercise", "null"), [p for p in PAIRS if p.values[0].kind != "kernel"])
@pytest.mark.usefixtures("unnamed")
def test_null_models_fail(exercise, null):
    """Kernels must have computed at all (`test_submissions`); here the values alone decide."""

    def answer(*args, **kwargs):
        inputs = inputs_of(Case("", args))
        shape = next(
            truth.shape
            for case, truth in cases_of(exercise)
            if [x.shape for x in inputs_of(case)] == [x.shape for x in inputs]
        )
        out = np.array(NULLS[null](inputs, shape))
        return args[0].new_tensor(out) if exercise.kind == "torch" else out

    answer.__name__ = exercise.function
    report = report_for(answer, seed=3)
    assert not report.passed, report.text()
