"""The first half of a check on a GPU: the same check as on a laptop, interpreted, in a child.

Guard bands, books and the question of where each number came from exist in the interpreter only,
and a kernel that leaves its tensors on a GPU may take the whole notebook with it. So a kernel is
judged there first, on copies, and compiled for the GPU once nothing is wrong (`check`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from course_lib.child.extract import extract
from course_lib.child.process import Failure, run
from course_lib.judging.picture import Bar, ErrorMap, Picture, TrafficBars
from course_lib.judging.report import Report, Verdict
from course_lib.judging.spec import Exercise

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
    payload = {
        "name": piece.name,
        "exercise": exercise.id,
        "seed": seed,
        "origins": piece.origins,
    }
    cases = len(exercise.cases(np.random.default_rng(seed)))
    result = run(
        piece,
        task,
        payload,
        mode="interpreter",
        timeout=_START + cases * exercise.seconds,
    )
    print(result.printed, end="")
    if result.failure is not None:
        return _not_judged(exercise, result.failure)
    return _unpacked(exercise, result.value)


def _not_judged(exercise: Exercise, failure: Failure) -> Report:
    """Report a child that could not judge: what the answer calls cannot be copied, or it died."""
    lines = [f"   line {f.line}, in {f.function}:  {f.text}" for f in failure.frames[-4:]]
    said = f"{failure.type}: {failure.message}" if failure.kind == "student" else failure.message
    return Report(
        exercise,
        Verdict.ERROR,
        ("It could not be checked in the interpreter:", said, *lines),
        failed_property=failure.type,
    )


def packed(report: Report) -> dict[str, Any]:
    """Return a report as data that JSON can carry."""
    picture = None
    if isinstance(report.picture, ErrorMap):
        picture = {"map": {**asdict(report.picture), "codes": report.picture.codes.tolist()}}
    elif report.picture is not None:
        picture = {"bars": asdict(report.picture)}
    return {
        "verdict": report.verdict.value,
        "lines": report.lines,
        "failed_property": report.failed_property,
        "misconception": report.misconception,
        "drawn_after": report.drawn_after,
        "picture": picture,
    }


def _unpacked(exercise: Exercise, data: dict[str, Any]) -> Report:
    kept = {key: data[key] for key in ("failed_property", "misconception", "drawn_after")}
    verdict, lines = Verdict(data["verdict"]), tuple(data["lines"])
    return Report(exercise, verdict, lines, **kept, picture=_picture(data["picture"]))


def _picture(data: dict[str, Any] | None) -> Picture | None:
    if data is None:
        return None
    if fields := data.get("map"):
        codes = np.array(fields["codes"], dtype=np.int8)
        tuples = {name: tuple(fields[name]) for name in ("axes", "tile")}
        return ErrorMap(**{**fields, **tuples, "codes": codes})
    fields = data["bars"]
    return TrafficBars(**{**fields, "bars": tuple(Bar(**bar) for bar in fields["bars"])})
