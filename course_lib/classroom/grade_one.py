"""Grade one submission: split its files, examine each exercise, compile what passed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from course_lib.child.codec import BadFrame
from course_lib.classroom.compiling import Compiler
from course_lib.classroom.examine import Result, draw_cases, examine, is_unclear
from course_lib.classroom.record import (
    INFRASTRUCTURE,
    MISSING,
    REFUSED,
    UNCLEAR,
    from_report,
    plain,
    record,
)
from course_lib.handin import split
from course_lib.handin.blank import is_blank
from course_lib.handin.submissions import Submission
from course_lib.judging.report import Report, Verdict
from course_lib.judging.spec import Exercise
from course_lib.sandbox.channel import Closed, TooLate
from course_lib.sandbox.limit import Clock, memory_at_most
from course_lib.sandbox.workshop import Child, InfrastructureError, Workshop

SPLIT_SECONDS = 30.0
SECONDS, WALL = 600.0, 3.0  # CPU seconds of a whole submission; how many times that on the wall
MEMORY = 4 << 30  # bytes that judging an exercise may take
_MANY = 12  # exercises that a sentence does not list
_SPLITTER = f"{split.__name__}:serve"  # the child task that parses files


@dataclass(frozen=True)
class _Cut:
    """An exercise as one file holds it: its program, or why this cannot be loaded."""

    file: str
    program: str = ""
    broken: str = ""

    @property
    def is_blank(self) -> bool:
        return not self.broken and is_blank(self.program)


@dataclass
class _Found:
    """What a submission's files hold: for each exercise the cut that counts, who had a choice."""

    cuts: dict[str, _Cut] = field(default_factory=dict)
    several: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def take(self, exercise_id: str, cut: _Cut) -> None:
        """Let the last cut that is not the blank count, or else the last."""
        before = self.cuts.get(exercise_id)
        if before:
            self.several.add(exercise_id)
        if before is None or before.is_blank or not cut.is_blank:
            self.cuts[exercise_id] = cut

    def notes(self) -> list[str]:
        """Return what could not be read, and which file counts where there was a choice."""
        chosen = (f"{i} is in several files: {self.cuts[i].file} counts." for i in self.several)
        return [*self.problems, *sorted(chosen)]


def grade(
    workshop: Workshop,
    submission: Submission,
    exercises: Sequence[Exercise],
    secret: bytes,
) -> list[dict[str, Any]]:
    """Return the records of one submission; never raises for anything that is in it."""
    who = (submission.student, submission.content)
    if submission.problem:
        return [record(*who, None, REFUSED, submission.problem)]
    try:
        found = _split(workshop, submission, exercises)
    except InfrastructureError as error:
        return [record(*who, None, INFRASTRUCTURE, str(error))]
    lessons = {e.lesson for e in exercises if e.id in found.cuts}
    if not lessons:
        wanted = ", ".join(e.label for e in exercises) if len(exercises) < _MANY else "the course"
        why = " ".join(found.problems) or f"No exercise of {wanted} is in it."
        return [record(*who, None, REFUSED, why)]
    asked = [e for e in exercises if e.lesson in lessons]
    results: dict[str, Result | dict[str, Any]] = {}
    clock = Clock(SECONDS, lambda: _used(results.values()), WALL)
    for exercise in asked:
        results[exercise.id] = _one(workshop, exercise, found, secret, who, clock)
    with Compiler(workshop) as compiler:
        _compile(compiler, asked, results, who)
    about = {"sandbox": workshop.level, "notes": [plain(note) for note in found.notes()]}
    files = {e.id: found.cuts[e.id].file if e.id in found.cuts else None for e in asked}
    return [_written(results[e.id], e, who) | about | {"file": files[e.id]} for e in asked]


def _split(workshop: Workshop, submission: Submission, exercises: Sequence[Exercise]) -> _Found:
    found = _Found()
    ids = {e.slug: e.id for e in exercises}
    wanted = [(e.slug, e.function) for e in exercises]
    children: list[Child] = []
    clock = Clock(SPLIT_SECONDS, lambda: sum(child.cpu_seconds() for child in children))
    for name, data in submission.files:  # in natural order
        if clock.left() <= 0:
            says = f"{name} and what follows it: not read, the rest took {SPLIT_SECONDS:g} seconds."
            found.problems.append(says)
            break
        request = {"name": name, "data": data, "wanted": wanted}
        try:
            try:
                answer = _parsed(workshop, request, children, clock)
            except Closed:  # once more: the system may have killed it
                answer = _parsed(workshop, request, children, clock)
            programs, broken = (dict(answer.get(k, {})) for k in ("programs", "broken"))
        except TooLate:
            says = f"{name}: it is not read within {SPLIT_SECONDS:g} seconds."
            found.problems.append(says)
            continue
        except (Closed, BadFrame, AttributeError, TypeError, ValueError) as error:
            found.problems.append(f"{name}: it cannot be parsed ({type(error).__name__}).")
            continue
        if problem := answer.get("problem"):
            found.problems.append(str(problem))
        for slug in ids.keys() & (programs.keys() | broken.keys()):
            cut = _Cut(name, str(programs.get(slug, "")), str(broken.get(slug, "")))
            found.take(ids[slug], cut)
    return found


def _parsed(workshop: Workshop, request: Any, children: list[Child], clock: Clock) -> Any:
    """Return what a process of its own says of one file. Raises TooLate, Closed, BadFrame."""
    with workshop.task(_SPLITTER, cpu_seconds=int(SPLIT_SECONDS) + 5) as child:
        children.append(child)
        return child.ask(request, clock)


def _one(
    workshop: Workshop,
    exercise: Exercise,
    found: _Found,
    secret: bytes,
    who: tuple[str, str],
    clock: Clock,
) -> Result | dict[str, Any]:
    cut = found.cuts.get(exercise.id)
    if cut is None:
        return record(*who, exercise, MISSING, "This exercise is not in the submission.")
    if cut.broken:
        return Result(Report(exercise, Verdict.ERROR, (cut.broken,), failed_property="loads"))
    if clock.left() <= 0:
        says = f"The exercises before it took the {SECONDS:g} seconds that a submission has."
        return Result(Report(exercise, Verdict.ERROR, (says,), failed_property="comes to an end"))
    try:
        cases = draw_cases(exercise, secret, who[1])
        # its code has a child's limits; what it answers is judged here, beside all the others
        with memory_at_most(MEMORY):
            return examine(workshop, exercise, cut.program, cases, secret)
    except MemoryError:
        says = f"Judging what it answers takes more than {MEMORY >> 30} GiB of memory."
        return record(*who, exercise, REFUSED, says)
    except InfrastructureError as error:
        return record(*who, exercise, INFRASTRUCTURE, str(error))
    except Exception as error:  # the grader's own mistake is nobody's score
        return record(*who, exercise, INFRASTRUCTURE, f"{type(error).__name__}: {error}")


def _used(results: Iterable[Result | dict[str, Any]]) -> float:
    """Return the CPU seconds of this process, and of those that ran what gave these results."""
    ran = (result.cpu_seconds for result in results if isinstance(result, Result))
    return time.process_time() + sum(ran)


def _compile(
    compiler: Compiler, asked: Sequence[Exercise], results: dict[str, Any], who: tuple[str, str]
) -> None:
    """Compile the kernels of the exercises that pass; who does not compile does not."""
    for exercise in asked:
        result = results[exercise.id]
        if not isinstance(result, Result) or not result.report.passed:
            continue
        try:
            result.report = compiler.report(exercise, result.launches) or result.report
        except InfrastructureError as error:
            results[exercise.id] = record(*who, exercise, INFRASTRUCTURE, str(error))
        except Exception as error:  # as in `_one`
            says = f"{type(error).__name__}: {error}"
            results[exercise.id] = record(*who, exercise, INFRASTRUCTURE, says)


def _written(
    result: Result | dict[str, Any], exercise: Exercise, who: tuple[str, str]
) -> dict[str, Any]:
    """Return the record of an exercise; a report that cannot be written is no other's loss."""
    try:
        return _finished(result, exercise, who)
    except Exception as error:  # as in `_one`
        return record(*who, exercise, INFRASTRUCTURE, f"{type(error).__name__}: {error}")


def _finished(
    result: Result | dict[str, Any], exercise: Exercise, who: tuple[str, str]
) -> dict[str, Any]:
    if isinstance(result, dict):
        return result
    return from_report(
        *who,
        result.report,
        outcome=UNCLEAR if is_unclear(result.report) else result.report.verdict.value,
        properties=result.properties,
        traffic=result.traffic,
        seconds=round(result.seconds, 3),
        cpu_seconds=round(result.cpu_seconds, 3),
        judging_seconds=round(result.judging_seconds, 3),
    )
