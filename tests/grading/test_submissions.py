"""The corpus of submissions: every wrong kernel fails for its reason, every right one passes.

A wrong file's second line is "# Expected: misconception: NAME" or "# Expected: property: NAME".
Mistakes that behave alike share a name (a multiplying mask and an inverted alpha make NaN of
everything); a property alone is expected where no known mistake explains the numbers.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from course_lib.grading import check
from course_lib.grading.report import Report, Verdict

CORPUS = Path(__file__).parents[1] / "submissions" / "7.4"
WRONG = sorted((CORPUS / "wrong").glob("*.py"))
RIGHT = sorted((CORPUS / "right").glob("*.py"))
COMPILED = {"descriptors", "strides_and_odd_names"}


def report_on(file: Path) -> Report:
    """Return the check's report on a submission, imported from its own file."""
    spec = importlib.util.spec_from_file_location(f"submission_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return check.report_for(module.my_flash_attention, seed=1)


@pytest.mark.parametrize("file", WRONG, ids=lambda file: file.stem)
def test_every_wrong_kernel_fails_for_its_reason(file, monkeypatch):
    monkeypatch.setattr(check, "_compile", lambda *_: None)
    second = file.read_text(encoding="utf-8").splitlines()[1]
    kind, expected = second.removeprefix("# Expected: ").split(": ", 1)
    report = report_on(file)
    assert report.verdict in (Verdict.INCORRECT, Verdict.ERROR), report.text()
    if kind == "misconception":
        assert report.misconception == expected, report.text()
    else:
        assert report.failed_property == expected, report.text()
        assert not report.misconception, report.text()


@pytest.mark.parametrize("file", RIGHT, ids=lambda file: file.stem)
def test_every_right_kernel_passes(file, monkeypatch):
    """Written differently is not wrong; a few are compiled for a GPU as well (most are patched)."""
    if file.stem not in COMPILED:
        monkeypatch.setattr(check, "_compile", lambda *_: None)
    report = report_on(file)
    assert report.passed, report.text()


def test_the_corpus_is_as_large_as_promised():
    assert len(WRONG) >= 24
    assert len(RIGHT) >= 8
