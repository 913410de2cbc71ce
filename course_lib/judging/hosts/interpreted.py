"""The first half of a check on a GPU: the same check as on a laptop, interpreted, in a child.

Guard bands, books and the question of where each number came from exist in the interpreter only,
and a kernel that leaves its tensors on a GPU may take the whole notebook with it. So a kernel is
judged there first, on copies, and compiled for the GPU once nothing is wrong (`check`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from course_lib.child.codec import fields_of
from course_lib.child.extract import extract
from course_lib.child.process import ChildFailure, run
from course_lib.child.student_error import as_lines
from course_lib.judging.report import Report, Verdict
from course_lib.judging.spec import Exercise
from course_lib.sandbox.limit import WALL

_START = 60.0  # seconds for the child to begin, on a slow machine


def judge_interpreted(
    exercise: Exercise, function: Callable[..., Any], seed: int, task: str
) -> Report:
    """Return the report of a child process that interprets; what it printed is printed here.

    ``task`` names the function of the course that judges there ("module:function"): it finds the
    exercise by its id, which this room cannot, and returns `packed` (report).

    Raises NotExtractable if the function cannot be copied into another process.
    """
    piece = extract(function, leave_undefined=True)
    payload = {"name": piece.name, "exercise": exercise.id, "seed": seed}
    cases = len(exercise.cases(np.random.default_rng(seed)))
    result = run(
        piece,
        task,
        payload,
        mode="interpreter",
        timeout=_START + WALL * cases * exercise.seconds,
    )
    print(result.printed, end="")
    if result.failure is not None:
        return _not_judged(exercise, result.failure)
    verdict = Verdict(result.value["verdict"])
    return Report(**result.value | {"exercise": exercise, "verdict": verdict})


def _not_judged(exercise: Exercise, failure: ChildFailure) -> Report:
    """Report a child that could not judge: what the answer calls cannot be copied, or it died."""
    lines = as_lines(list(failure.frames))
    said = f"{failure.type}: {failure.message}" if failure.kind == "student" else failure.message
    return Report(
        exercise,
        Verdict.ERROR,
        ("It could not be checked in the interpreter:", said, *lines),
        failed_property=failure.type,
    )


def packed(report: Report) -> dict[str, Any]:
    """Return what crosses of a report: all but its exercise, which holds functions."""
    return fields_of(report) | {"exercise": None, "verdict": report.verdict.value}
