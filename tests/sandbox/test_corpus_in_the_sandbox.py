"""The corpus of submissions as a class: what the sandbox grades is what a notebook's check says.

`test_submissions` asks the check in the student's own process. Here the same ones are graded as
those of a class are: split, loaded in a confined process, launched apart. A right one of each
kernel exercise and a wrong one of each lesson are graded always, the whole corpus with the slow
tests.
"""

from __future__ import annotations

import re

import pytest
from corpus import corpus

from course_lib.classroom import grade_one
from course_lib.handin.submissions import Submission
from course_lib.specs import EXERCISES, find

KERNELS = [exercise.id for exercise in EXERCISES if exercise.kind == "kernel"]
RIGHT, WRONG = corpus("right"), corpus("wrong")
# the sandbox refuses to load what a notebook's check finds out later
REFUSED = {"library_rung": "PermissionError"}


def first_of(samples, part):
    """Return the first kernel of each exercise or lesson, of lesson 05 the first four."""
    chosen: dict[str, list] = {}
    for one in samples:
        if one.exercise in KERNELS:
            chosen.setdefault(part(one), []).append(one)
    return [one for name, own in chosen.items() for one in own[: 4 if name[0] == "5" else 1]]


FEW_RIGHT = first_of(RIGHT, lambda one: one.exercise)
FEW_WRONG = first_of(WRONG, lambda one: re.match(r"\d+", one.exercise)[0])


def with_the_rest(few, samples):
    """Return parameters: the few, then all others, marked slow."""
    rest = [sample for sample in samples if sample not in few]
    slow = [pytest.param(sample, id=name_of(sample), marks=pytest.mark.slow) for sample in rest]
    return [pytest.param(sample, id=name_of(sample)) for sample in few] + slow


def name_of(sample) -> str:
    return f"{sample.exercise}-{sample.name}"


@pytest.fixture
def graded(workshop, sample, monkeypatch):
    """Grade a sample; compile it for a GPU only where the corpus asks for that."""
    if not sample.compiled:
        monkeypatch.setattr(grade_one, "_compile", lambda *_: None)
    handed_in = Submission("ada", ((f"{sample.name}.py", sample.text.encode()),))
    exercise = find(sample.exercise)
    (line,) = grade_one.grade(workshop, handed_in, [exercise], b"a secret")
    return line


def test_the_fast_half_holds_a_right_sample_of_every_kernel_exercise():
    assert {sample.exercise for sample in FEW_RIGHT} == set(KERNELS)


@pytest.mark.parametrize("sample", with_the_rest(FEW_RIGHT, RIGHT))
def test_every_right_submission_gets_its_points(sample, graded):
    assert graded["outcome"] == "passed", graded["message"]
    assert graded["score"] == find(sample.exercise).points


@pytest.mark.parametrize("sample", with_the_rest(FEW_WRONG, WRONG))
def test_every_wrong_submission_fails_for_its_reason(sample, graded):
    kind, name = sample.expected
    assert graded["score"] == 0, graded["message"]
    if kind == "verdict":
        assert graded["outcome"] == name, graded["message"]
    elif kind == "misconception":
        assert graded["misconception"] == name, graded["message"]
    else:
        name = REFUSED.get(sample.name, name)
        assert (graded["property"], graded["misconception"]) == (name, ""), graded["message"]
