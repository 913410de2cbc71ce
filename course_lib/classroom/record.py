"""One JSON line per submission and exercise, always: what every other format is made from.

``outcome`` is a verdict of a check, or *missing* (the exercise is not in the submission),
*refused* (the submission could not be read), *unclear* (right, but nobody could try whether the
kernel computed it) or *infrastructure* (not the student's doing); for the last three a person has
to look, and may decide (`decisions`). A submission's lines are written together, and a run that
was killed goes on where it stopped: what is whole in the file is never graded again.
"""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from course_lib.judging.report import Report
from course_lib.judging.spec import Exercise
from course_lib.sandbox.allowed import COURSE, MAY_NOT_IMPORT

Lines = Sequence[Mapping[str, Any]]  # the records of one submission
Class = Mapping[str, Lines]  # student -> records

SCHEMA = 1
MISSING, REFUSED, INFRASTRUCTURE, UNCLEAR = "missing", "refused", "infrastructure", "unclear"
FOR_A_PERSON = (REFUSED, INFRASTRUCTURE, UNCLEAR)
_MOST_TEXT = 16 << 10
_FOLDERS = re.compile(r"(?<![\w./:~-])/(?:[\w.@+-]+/)+")  # of an absolute path
_CLOSED = re.compile(
    r"\[Errno 13\] Permission denied: '[^'\n]*\bcourse_lib/(\w+(/\w+(?=\.py))?)[^'\n]*'"
)


def record(
    student: str,
    content: str,
    exercise: Exercise | None,
    outcome: str,
    message: str,
    *,
    passed: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """Return one record; its texts are plain, cut at 16 KiB, and show no path of this machine."""
    points = exercise.points if exercise else 0
    return {
        "schema": SCHEMA,
        "student": plain(student),
        "content": content,
        "exercise": exercise.id if exercise else None,
        "function": exercise.function if exercise else None,
        "title": exercise.title if exercise else None,
        "outcome": outcome,
        "fault_of": _fault_of(outcome),
        "score": points if passed else 0,
        "max_score": points,
        "message": _for_students(plain(message)),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        **more,
    }


def from_report(
    student: str, content: str, report: Report, outcome: str = "", **more: Any
) -> dict[str, Any]:
    """Return the record of an exercise that was run."""
    return record(
        student,
        content,
        report.exercise,
        outcome or report.verdict.value,
        report.body(),
        passed=report.passed,
        property=plain(report.failed_property),
        misconception=report.misconception,
        picture=report.picture.record() if report.picture else None,
        **more,
    )


def _fault_of(outcome: str) -> str | None:
    if outcome == "passed":
        return None
    nobodys = (INFRASTRUCTURE, UNCLEAR, "cannot run here")
    return "infrastructure" if outcome in nobodys else "student"


def plain(text: str) -> str:
    """Return text without control characters (ANSI), direction marks and lone surrogates."""
    text = text.encode("utf-8", "replace").decode()
    kept = (c for c in text if c == "\n" or unicodedata.category(c)[0] != "C")
    return "".join(kept)[:_MOST_TEXT]


def _for_students(text: str) -> str:
    """Say in a sentence what the sandbox keeps closed; leave of paths what is the course's own."""
    text = _CLOSED.sub(lambda closed: MAY_NOT_IMPORT.format(closed[1].replace("/", ".")), text)
    for root in _roots():
        text = text.replace(root, "")
    return _FOLDERS.sub("", text)


@cache
def _roots() -> list[str]:
    """Return this machine's folders, each ending in a slash, inner ones first."""
    course = COURSE.parent
    installed = sysconfig.get_paths()
    places = [course, Path.home(), Path.cwd(), tempfile.gettempdir(), sys.prefix]
    places += [installed[name] for name in ("stdlib", "purelib", "platlib")]
    roots = {f"{place}/" for place in places} - {"//"}
    return sorted(roots, key=len, reverse=True)


@cache
def versions() -> dict[str, str]:
    """Return the versions that a score depends on."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from course_lib import __version__

    found = {"course": __version__, "python": platform.python_version()}
    for package in ("numpy", "torch", "triton"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found


class Records:
    """The file of records: append whole submissions, read back what is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, lines: Iterable[dict[str, Any]]) -> None:
        """Write the records of one submission and see them onto the disk. Raises OSError."""
        lines = list(lines)
        text = "".join(
            json.dumps(line | {"part": [i + 1, len(lines)]}, ensure_ascii=True) + "\n"
            for i, line in enumerate(lines)
        )
        with open(self.path, "ab") as file:
            if file.tell() and not _ends_with_newline(self.path):
                file.write(b"\n")  # a line that a killed run left unfinished
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def latest(self) -> dict[str, list[dict[str, Any]]]:
        """Return student -> the records of their last submission that is whole in the file."""
        found: dict[str, list[dict[str, Any]]] = {}
        group: list[dict[str, Any]] = []
        for line in self._lines():
            number, of = line.pop("part", [1, 1])
            group = [line] if number == 1 else [*group, line]
            if number == of == len(group):
                found[line["student"]] = group
        return found

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            file = open(self.path, encoding="utf-8", errors="replace")  # noqa: SIM115
        except FileNotFoundError:
            return
        with file:
            for text in file:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue
                if isinstance(line, dict) and "student" in line:
                    yield line


def total(lines: Lines) -> tuple[float, float]:
    """Return (score, highest possible score) over the exercises of a submission."""
    return sum(line["score"] for line in lines), sum(line["max_score"] for line in lines)


def needs_a_person(lines: Iterable[dict[str, Any]]) -> bool:
    """Return whether somebody has to look at these records."""
    return any(reason_for_a_person(line) for line in lines)


def reason_for_a_person(line: Mapping[str, Any]) -> str:
    """Return why somebody has to look at this record, "" if nobody has to."""
    unclear = line["message"] if line["outcome"] in FOR_A_PERSON else ""
    return " ".join(filter(None, (line.get("for_a_person", ""), unclear)))


def _ends_with_newline(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
