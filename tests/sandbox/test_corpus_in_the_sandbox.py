"""The corpus of submissions as a class: what the sandbox grades is what a notebook's check says.

`test_submissions` asks the check in the student's own process. Here the same ones are graded as
those of a class are: split, loaded in a confined process, launched apart. A few are graded always,
in the sweep a wrong one of each lesson and, on some of its cases, a right one of each kernel
exercise, the whole corpus on all cases with the slow tests.
"""

from __future__ import annotations

import re

import pytest
from corpus import corpus
from drawn import drawn, swept

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
# of lesson 9 the first whose cases go forward only, or back: those of 9-star do both
FEW_WRONG = first_of(
    [one for one in WRONG if one.exercise != "9-star"],
    lambda one: re.match(r"\d+", one.exercise)[0],
)


def name_of(sample) -> str:
    return f"{sample.exercise}-{sample.name}"


def lesson_of(sample) -> int:
    return find(sample.exercise).lesson


@pytest.fixture
def graded(workshop, sample, monkeypatch):
    """Grade a sample; compile it for a GPU only where the corpus asks for that."""
    if not sample.compiled:
        monkeypatch.setattr(grade_one, "_compile", lambda *_: None)
    handed_in = Submission("ada", ((f"{sample.name}.py", sample.text.encode()),))
    exercise = find(sample.exercise)
    (line,) = grade_one.grade(workshop, handed_in, [exercise], b"a secret")
    return line


def text_of(sample) -> str:
    return sample.id + sample.text


def test_the_sweep_holds_a_right_sample_of_every_kernel_exercise_and_a_wrong_one_of_every_lesson():
    assert {sample.exercise for sample in FEW_RIGHT} == set(KERNELS)
    assert {lesson_of(one) for one in FEW_WRONG} == {lesson_of(one) for one in FEW_RIGHT}


@pytest.fixture
def fewer_cases(monkeypatch) -> None:
    """Leave one case in three, and the one to be compiled: each is launched three times."""
    draw = grade_one.draw_cases

    def drawn(*asked):
        return [case for n, case in enumerate(draw(*asked)) if n % 3 == 0 or case.compiled]

    monkeypatch.setattr(grade_one, "draw_cases", drawn)


@pytest.mark.parametrize("sample", swept(FEW_RIGHT, drawn(FEW_RIGHT, text_of, few=3), name_of))
def test_a_right_submission_of_every_kernel_exercise_gets_its_points(sample, fewer_cases, graded):
    assert_points(sample, graded)


@pytest.mark.slow
@pytest.mark.parametrize("sample", RIGHT, ids=name_of)
def test_every_right_submission_gets_its_points(sample, graded):
    assert_points(sample, graded)


def assert_points(sample, graded):
    assert graded["outcome"] == "passed", graded["message"]
    assert graded["score"] == find(sample.exercise).points


OTHER_WRONG = [sample for sample in WRONG if sample not in FEW_WRONG]


@pytest.mark.parametrize(
    "sample",
    [
        *swept(FEW_WRONG, drawn(FEW_WRONG, text_of, few=3), name_of),
        *(
            pytest.param(sample, id=name_of(sample), marks=pytest.mark.slow)
            for sample in OTHER_WRONG
        ),
    ],
)
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
