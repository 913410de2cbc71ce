"""The corpus of submissions as a class: what the sandbox grades is what a notebook's check says.

`test_submissions` asks the check in the student's own process. Here the same files are graded as
those of a class are: split, loaded in a confined process, launched on the device. A few files of
each kernel exercise are graded always, the whole corpus with the slow tests.
"""

from __future__ import annotations

import pytest
from judging.helpers import CORPUS

from course_lib.classroom import submission
from course_lib.classroom.batch import SPLITTER
from course_lib.handin.files import Submission
from course_lib.specs import EXERCISES, find

KERNELS = [exercise.id for exercise in EXERCISES if exercise.kind == "kernel"]
RIGHT = sorted(CORPUS.glob("*/right/*.py"))
WRONG = sorted(CORPUS.glob("*/wrong/*.py"))
SAYS = "# Expected: "
# the sandbox refuses to load what a notebook's check finds out later
REFUSED = {"library_rung": "PermissionError"}


def few_of(files):
    """Return the first file of each kernel exercise, of lesson 05 the first four."""
    chosen = []
    for name in KERNELS:
        own = [file for file in files if file.parts[-3] == name]
        chosen += own[: 4 if name.startswith("5") else 1]
    return chosen


FEW_RIGHT, FEW_WRONG = few_of(RIGHT), few_of(WRONG)


def with_the_rest(few, files):
    """Return parameters: the few, then all others, marked slow."""
    rest = [file for file in files if file not in few]
    slow = [pytest.param(file, id=name_of(file), marks=pytest.mark.slow) for file in rest]
    return [pytest.param(file, id=name_of(file)) for file in few] + slow


def name_of(file) -> str:
    return f"{file.parts[-3]}-{file.stem}"


@pytest.fixture
def graded(workshop, file, monkeypatch):
    """Grade a file; compile it for a GPU only where the corpus asks for that."""
    text = file.read_text(encoding="utf-8")
    if "# Compiled" not in text and f"{SAYS}verdict:" not in text:
        monkeypatch.setattr(submission, "_compile_last", lambda *_: None)
    handed_in = Submission("ada", ((file.name, text.encode()),))
    exercise = find(file.parts[-3])
    (line,) = submission.grade(workshop, handed_in, [exercise], b"a secret", SPLITTER)
    return line


def test_the_fast_half_holds_a_right_file_of_every_kernel_exercise():
    assert {file.parts[-3] for file in FEW_RIGHT} == set(KERNELS)
    assert {file.parts[-3] for file in FEW_WRONG} == set(KERNELS)


@pytest.mark.parametrize("file", with_the_rest(FEW_RIGHT, RIGHT))
def test_every_right_submission_gets_its_points(file, graded):
    assert graded["outcome"] == "passed", graded["message"]
    assert graded["score"] == find(file.parts[-3]).points


@pytest.mark.parametrize("file", with_the_rest(FEW_WRONG, WRONG))
def test_every_wrong_submission_fails_for_its_reason(file, graded):
    second = file.read_text(encoding="utf-8").splitlines()[1]
    kind, name = second.removeprefix(SAYS).split(": ", 1)
    assert graded["score"] == 0, graded["message"]
    if kind == "verdict":
        assert graded["outcome"] == name, graded["message"]
    elif kind == "misconception":
        assert graded["misconception"] == name, graded["message"]
    else:
        name = REFUSED.get(file.stem, name)
        assert (graded["property"], graded["misconception"]) == (name, ""), graded["message"]
