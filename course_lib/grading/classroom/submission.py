"""Grade one submission: split its files, examine each exercise, compile the last good kernel."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from course_lib.grading.classroom.collect import Submission
from course_lib.grading.classroom.examiner import Result, compiles, draw_cases, examine
from course_lib.grading.classroom.record import (
    INFRASTRUCTURE,
    MISSING,
    REFUSED,
    from_report,
    record,
)
from course_lib.grading.report import Report, Verdict
from course_lib.grading.sandbox.frame import BadFrame, Closed, TooLate
from course_lib.grading.sandbox.workshop import InfrastructureError, Workshop
from course_lib.grading.spec import Exercise

SPLIT_SECONDS = 30.0


@dataclass
class _Found:
    """What a submission's files hold: exercise id -> program, or why it cannot be loaded."""

    programs: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def grade(
    workshop: Workshop,
    submission: Submission,
    exercises: Sequence[Exercise],
    secret: bytes,
    splitter: str,
) -> list[dict[str, Any]]:
    """Return the records of one submission; never raises for anything that is in it.

    ``splitter`` names the child task that parses files ("module:function").
    """
    who = (submission.student, submission.content)
    if submission.problem:
        return [record(*who, None, REFUSED, submission.problem)]
    try:
        found = _split(workshop, submission, exercises, splitter)
    except InfrastructureError as error:
        return [record(*who, None, INFRASTRUCTURE, str(error))]
    lessons = {e.lesson for e in exercises if e.id in found.programs or e.id in found.broken}
    if not lessons:
        why = " ".join(found.problems) or "No exercise of this course is in it."
        return [record(*who, None, REFUSED, why)]
    asked = [e for e in exercises if e.lesson in lessons]
    results = {e.id: _one(workshop, e, found, secret, who) for e in asked}
    _compile_last(workshop, asked, results, who)
    level = {"sandbox": workshop.level, "notes": found.problems}
    return [_finished(results[e.id], e, who) | level for e in asked]


def _split(
    workshop: Workshop, submission: Submission, exercises: Sequence[Exercise], splitter: str
) -> _Found:
    found = _Found()
    ids = {e.slug: e.id for e in exercises}
    wanted = [(e.slug, e.function) for e in exercises]
    for name, data in submission.files:  # natural order: a later file's exercises count
        with workshop.task(splitter, cpu_seconds=int(SPLIT_SECONDS)) as child:
            request = {"name": name, "data": data, "wanted": wanted}
            try:
                answer = child.ask(request, time.monotonic() + SPLIT_SECONDS)
                cut = {key: dict(answer.get(key, {})) for key in ("programs", "broken")}
            except (Closed, TooLate, BadFrame, AttributeError) as error:
                found.problems.append(f"{name}: it cannot be parsed ({type(error).__name__}).")
                continue
        if problem := answer.get("problem"):
            found.problems.append(str(problem))
        for slug, text in cut["programs"].items():
            found.programs[ids[slug]] = text
            found.broken.pop(ids[slug], None)
        for slug, why in cut["broken"].items():
            found.broken[ids[slug]] = why
            found.programs.pop(ids[slug], None)
    return found


def _one(
    workshop: Workshop, exercise: Exercise, found: _Found, secret: bytes, who: tuple[str, str]
) -> Result | dict[str, Any]:
    if why := found.broken.get(exercise.id):
        report = Report(exercise, Verdict.ERROR, (why,), failed_property="loads")
        return Result(report)
    if exercise.id not in found.programs:
        return record(*who, exercise, MISSING, "This exercise is not in the submission.")
    try:
        cases = draw_cases(exercise, secret, who[1])
        return examine(workshop, exercise, found.programs[exercise.id], cases)
    except InfrastructureError as error:
        return record(*who, exercise, INFRASTRUCTURE, str(error))
    except Exception as error:  # the grader's own mistake is nobody's score
        return record(*who, exercise, INFRASTRUCTURE, f"{type(error).__name__}: {error}")


def _compile_last(
    workshop: Workshop, asked: Sequence[Exercise], results: dict[str, Any], who: tuple[str, str]
) -> None:
    """Compile the last kernel that passes; if it does not compile, the one before it, and so on."""
    for exercise in reversed(asked):
        result = results[exercise.id]
        if not isinstance(result, Result) or not result.report.passed or not result.launches:
            continue
        try:
            report = compiles(workshop, exercise, result.launches)
        except InfrastructureError as error:
            results[exercise.id] = record(*who, exercise, INFRASTRUCTURE, str(error))
            return
        if report is None:
            return
        result.report = report


def _finished(
    result: Result | dict[str, Any], exercise: Exercise, who: tuple[str, str]
) -> dict[str, Any]:
    if isinstance(result, dict):
        return result
    return from_report(
        *who,
        result.report,
        properties=result.properties,
        traffic=result.traffic,
        seconds=round(result.seconds, 3),
        cpu_seconds=round(result.cpu_seconds, 3),
        judging_seconds=round(result.judging_seconds, 3),
    )
