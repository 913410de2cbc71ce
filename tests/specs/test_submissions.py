"""The corpus of submissions: every wrong one fails for its reason, every right one passes.

`tests/submissions/README.md` says how they are written.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import triton
from corpus import corpus
from helpers import report_on, says

from course_lib.judging.report import Verdict
from course_lib.specs import EXERCISES

CODE = [e for e in EXERCISES if e.kind != "question" and not e.draft]
FAILED = (Verdict.INCORRECT, Verdict.ERROR, Verdict.NOT_ON_A_GPU)


STEPS = ("7.1", "7.2", "7.3")  # towards 7.4, in which most of their mistakes can be made again
TOLD = {sample.expected for sample in corpus("wrong", "7.4") if "property" not in sample.expected}


def name_of(sample) -> str:
    return f"{sample.exercise}-{sample.name}"


def is_told_of_7_4(sample) -> bool:
    return sample.exercise in STEPS and sample.expected in TOLD


def those_that_wait() -> Iterator[str]:
    """Yield what `make test-slow` tries: of an exercise's wrong ones with one name all but the
    first, and the steps towards 7.4 where it says the same."""
    told = set()
    for sample in corpus("wrong"):
        says_what = (sample.exercise, sample.expected)
        if is_told_of_7_4(sample) or says_what in told:
            yield name_of(sample)
        told.add(says_what)


SLOW = set(those_that_wait())
WRONG = [
    pytest.param(one, id=name_of(one), marks=[pytest.mark.slow] if name_of(one) in SLOW else [])
    for one in corpus("wrong")
]


@pytest.mark.parametrize("sample", WRONG)
def test_every_wrong_submission_fails_for_its_reason(sample):
    report = report_on(sample)
    assert report.verdict in FAILED, report.text()
    what, name = sample.expected
    assert says(report, what) == name, report.text()


@pytest.mark.parametrize("step", STEPS)
def test_the_fast_half_holds_the_mistakes_of_a_step_that_7_4_does_not_tell(step):
    assert sum(name_of(sample) not in SLOW for sample in corpus("wrong", step)) >= 8


def test_every_name_of_every_exercise_is_among_the_fast():
    every = {(sample.exercise, sample.expected) for sample in corpus("wrong")}
    fast = {(one.exercise, one.expected) for one in corpus("wrong") if name_of(one) not in SLOW}
    assert {exercise for exercise, _ in every - fast} <= set(STEPS)


@pytest.mark.parametrize("sample", corpus("right"), ids=name_of)
def test_every_right_submission_passes(sample):
    """Written differently is not wrong."""
    report = report_on(sample)
    minor = ".".join(triton.__version__.split(".")[:2])
    if f"# Compiled, but not by Triton {minor}\n" in sample.text:
        assert report.verdict is Verdict.NOT_ON_A_GPU, report.text()
    else:
        assert report.passed, report.text()


@pytest.mark.parametrize("exercise", CODE, ids=lambda exercise: exercise.id)
def test_the_corpus_is_as_large_as_promised(exercise):
    wrong, right = (24, 8) if exercise.id == "7.4" else (8, 4 if exercise.kind == "kernel" else 1)
    assert len(corpus("wrong", exercise.id)) >= wrong
    assert len(corpus("right", exercise.id)) >= right
