"""The corpus of submissions: every wrong one fails for its reason, every right one passes.

``tests/submissions/<exercise>/wrong/*.py`` and ``right/*.py`` are read one by one. A wrong file's
second line says what the report must name:

    # Expected: misconception: NAME     a known mistake (two that behave alike share a name)
    # Expected: property: NAME          no known mistake explains the numbers; this property breaks
    # Expected: verdict: NAME           the verdict alone says it ("right here, not on a GPU")

A kernel is compiled for a GPU where the verdict is about that, and where the file asks for it with
a line "# Compiled"; elsewhere the child that compiles would only cost time. A right file may add
", but not by Triton 3.5", where that Triton's own compiler breaks on it: the report must then say
"right here, not on a GPU".
"""

from __future__ import annotations

from pathlib import Path

import pytest
import triton
from helpers import CORPUS, report_on

from course_lib import checking as check
from course_lib.judging.report import Verdict
from course_lib.specs import EXERCISES

WRONG = sorted(CORPUS.glob("*/wrong/*.py"))
RIGHT = sorted(CORPUS.glob("*/right/*.py"))
CODE = [e for e in EXERCISES if e.kind != "question" and not e.draft]
FAILED = (Verdict.INCORRECT, Verdict.ERROR, Verdict.NOT_ON_A_GPU)


def name_of(file: Path) -> str:
    return f"{file.parts[-3]}-{file.stem}"


@pytest.fixture
def compiles_only_if_asked(file, monkeypatch):
    text = file.read_text(encoding="utf-8")
    if "# Compiled" not in text and "# Expected: verdict:" not in text:
        monkeypatch.setattr(check, "_compiled", lambda report, *_: report)


@pytest.mark.parametrize("file", WRONG, ids=name_of)
@pytest.mark.usefixtures("compiles_only_if_asked")
def test_every_wrong_submission_fails_for_its_reason(file):
    second = file.read_text(encoding="utf-8").splitlines()[1]
    kind, expected = second.removeprefix("# Expected: ").split(": ", 1)
    report = report_on(file)
    assert report.verdict in FAILED, report.text()
    found = {
        "misconception": report.misconception,
        "property": "" if report.misconception else report.failed_property,
        "verdict": report.verdict.value,
    }
    assert found[kind] == expected, report.text()


@pytest.mark.parametrize("file", RIGHT, ids=name_of)
@pytest.mark.usefixtures("compiles_only_if_asked")
def test_every_right_submission_passes(file):
    """Written differently is not wrong."""
    report = report_on(file)
    minor = ".".join(triton.__version__.split(".")[:2])
    if f"# Compiled, but not by Triton {minor}\n" in file.read_text(encoding="utf-8"):
        assert report.verdict is Verdict.NOT_ON_A_GPU, report.text()
    else:
        assert report.passed, report.text()


@pytest.mark.parametrize("exercise", CODE, ids=lambda exercise: exercise.id)
def test_the_corpus_is_as_large_as_promised(exercise):
    wrong, right = (24, 8) if exercise.id == "7.4" else (8, 4 if exercise.kind == "kernel" else 1)
    folder = CORPUS / exercise.id
    assert len(list(folder.glob("wrong/*.py"))) >= wrong
    assert len(list(folder.glob("right/*.py"))) >= right
