"""Examine one exercise of a submission: the engine in the sandbox, and what the record keeps."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from course_lib.classroom.compiling import OPEN
from course_lib.classroom.record import plain
from course_lib.judging import books, engine, outcomes
from course_lib.judging.finding import Finding
from course_lib.judging.hosts import compared
from course_lib.judging.hosts.sandboxed import (
    ALL_CASES,
    FOLLOWS,
    TOO_LONG,
    ProcessDied,
    Sandboxed,
)
from course_lib.judging.report import Report, Verdict
from course_lib.judging.spec import Case, Exercise
from course_lib.sandbox.limit import TookTooLong, at_most
from course_lib.sandbox.workshop import Workshop

FEEDBACK_SECONDS = 10.0  # after the first failure, to try the remaining cases
_WATCHED = ALL_CASES + 3  # times the seconds of a case: more than the host's own clocks allow
_NEVER_JUDGED = Finding("comes to an end", "looking at what your function returns does not end.")


@dataclass
class Result:
    """What came of one exercise: the report, what each case showed, what it cost."""

    report: Report
    properties: list[dict[str, Any]] = field(default_factory=list)
    traffic: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the confined processes
    judging_seconds: float = 0.0  # CPU, of truth and comparison
    launches: list[dict[str, Any]] = field(default_factory=list)  # to be compiled, if it passed


def draw_cases(exercise: Exercise, secret: bytes, content: str) -> list[Case]:
    """Return the cases for one submission: its own, the same every time, unknown beforehand."""
    return list(exercise.cases(_generator(exercise, secret, content)))


def _generator(exercise: Exercise, secret: bytes, text: str) -> np.random.Generator:
    seed = hashlib.sha256(
        b"|".join([secret, text.encode("utf-8", "surrogatepass"), exercise.id.encode()])
    ).digest()
    return np.random.default_rng(int.from_bytes(seed))


def examine(
    workshop: Workshop, exercise: Exercise, program: str, cases: Sequence[Case], secret: bytes
) -> Result:
    """Run and judge one exercise. Raises InfrastructureError if the machine is at fault.

    A process that runs kernels and dies once, or is killed, may be the machine's fault; if it dies
    again, it is the submission's. From ``secret`` comes which numbers change when kernels are run
    once more, and in which cases they are also run as they are compiled.
    """
    started = time.monotonic()
    replays = _generator(exercise, b"replays|" + secret, program)
    names = compared(cases, replays)
    for _ in range(2):
        result = Result(outcomes.passed(exercise))
        host = Sandboxed(workshop, exercise, replays, names)
        try:
            with at_most(_WATCHED * exercise.seconds), host:
                _try_all(host, program, cases, result)
        except ProcessDied as died:
            result.report = outcomes.error(exercise, "ProcessEnded", str(died))
            continue
        except TookTooLong:  # the host has clocks; this is for what comes to none of them
            workshop.close()  # a zygote may have been asked and not been heard
            result.report = outcomes.incorrect(exercise, Case(""), _NEVER_JUDGED)
        break
    result.cpu_seconds = host.cpu_seconds
    if result.report.passed:  # others are not compiled, and their tensors may be large
        result.launches = host.launches
    result.seconds = time.monotonic() - started
    return result


def _try_all(host: Sandboxed, program: str, cases: Sequence[Case], result: Result) -> None:
    """Judge every case; the first failure decides, the rest is feedback while time allows.

    What merely speaks against a right answer waits for the rest, which takes no longer than if it
    were right.
    """
    exercise, until = host.exercise, float("inf")
    told: engine.Judged | None = None
    if (why := host.load(program)) is not None:
        loading = Case("loading your cells" if why is TOO_LONG else "")
        result.report = outcomes.failed(exercise, loading, why)
        return
    cpu, rounded = time.process_time(), False
    for judged in engine.judge(exercise, host, cases):
        result.judging_seconds = time.process_time() - cpu
        result.properties.append(_shown(judged))
        rounded = rounded or engine.is_rounded(judged)
        ledger = judged.observed.ledger if judged.observed and judged.case.counted else None
        if seen := books.traffic(ledger):
            result.traffic[judged.case.name] = seen
        if judged.outweighs(told) or (judged.report and is_unclear(result.report)):
            told, result.report = judged, judged.report or result.report
            until = float("inf") if told.doubted else time.monotonic() + FEEDBACK_SECONDS
        if time.monotonic() > until:
            return
    if rounded and result.report.passed:
        result.report = outcomes.rounded_on_a_gpu(exercise)


def is_unclear(report: Report) -> bool:
    """Return whether only a person can say if this answer is right.

    A student's own errors have any name that they like.
    """
    asked = report.failed_property in (FOLLOWS, OPEN)
    return asked and report.verdict is Verdict.INCORRECT


def _shown(judged: engine.Judged) -> dict[str, Any]:
    case, report = judged.case, judged.report
    if report is None:
        return {"case": case.name, "passed": True}
    found = {"property": plain(report.failed_property), "misconception": report.misconception}
    return {"case": case.name, "passed": False, **found}
