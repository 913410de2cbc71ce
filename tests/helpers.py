"""Load solved exercises, blanks and submissions as modules that inspect can read; judge them."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
from conftest import lesson_name
from corpus import Sample, sample

from course_lib import checking as check
from course_lib.authoring.percent import Cell, read_cells
from course_lib.authoring.regions import blank
from course_lib.checking import report_for
from course_lib.judging.report import Report
from course_lib.judging.spec import Case, Exercise
from course_lib.specs import find

ROOT = Path(__file__).parents[1]
_FOLDER = tempfile.TemporaryDirectory(prefix="course-test-")  # this process's, gone at its end
_FINAL_CALLS = re.compile(r"^(progress|hint|check|own_mark)\(.*\)$", re.MULTILINE)


def code(lesson: int, text: Callable[[Path, Cell], str] = lambda file, cell: cell.source) -> str:
    """Return the code of a lesson's exercise source, without calls of check and the like."""
    file = ROOT / "sources" / lesson_name(lesson) / "exercises.py"
    cells = [text(file, cell) for cell in read_cells(file) if cell.kind == "code"]
    return _FINAL_CALLS.sub("", "\n\n".join(["import course_lib", *cells]))


def module_from(source: str, name: str = "student") -> ModuleType:
    """Write ``source`` to a real file and import it, as a notebook's code would be seen."""
    file = Path(_FOLDER.name) / f"{name}_{abs(hash(source)):x}.py"
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    with contextlib.redirect_stdout(io.StringIO()):  # what the notebook's cells print
        spec.loader.exec_module(module)
    return module


@cache
def first_cases(exercise: Exercise) -> tuple[Case, ...]:
    """Return an exercise's cases of seed 1, to be looked at only: which tests there are hangs on
    them in several files, and to draw those of all exercises takes a second."""
    return tuple(exercise.cases(np.random.default_rng(1)))


@cache
def solutions(lesson: int) -> ModuleType:
    """Return a module with all solved functions of a lesson."""
    return module_from(code(lesson), f"solved_{lesson:02}")


@cache
def stubs(lesson: int) -> ModuleType:
    """Return the module that a student starts from: every solution region is a stub."""
    return module_from(code(lesson, blank), f"stub_{lesson:02}")


def function_of(sample: Sample) -> Callable[..., object]:
    """Return the function that a sample of the corpus hands in."""
    name = find(sample.exercise).function
    return getattr(module_from(sample.text, f"submission_{name}_{sample.name}"), name)


def report_on(one: Sample | str, seed: int = 1) -> Report:
    """Return the check's report on a sample, such as "5.2/wrong/mask_one_too_many".

    A kernel is compiled for a GPU only where the corpus asks for it.
    """
    one = sample(one) if isinstance(one, str) else one
    with contextlib.ExitStack() as stack:
        if not one.compiled:
            stack.enter_context(mock.patch.object(check, "_compiled", lambda report, *_: report))
        return report_for(function_of(one), seed=seed)


def says(report: Report, what: str) -> str:
    """Return what a report says in answer to `Sample.expected`: its mistake's name, say."""
    return {
        "misconception": report.misconception,
        "property": "" if report.misconception else report.failed_property,
        "verdict": report.verdict.value,
    }[what]


def changed(lesson: int, name: str, *changes: tuple[str, str], seed: int = 3) -> Report:
    """Return the report on the lesson's solution in which each (old, new) text was replaced."""
    source = code(lesson)
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return report_for(getattr(module_from(source), name), seed=seed)


def renamed(function: Callable[..., object], name: str) -> Report:
    """Return the report on ``function`` as an answer to the exercise called ``name``."""
    function.__name__ = name
    return report_for(function, seed=7)


def words_of(report: Report) -> str:
    """Return the report's text on one line."""
    return " ".join(report.text().split())
