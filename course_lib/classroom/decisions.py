"""What a person has decided about an answer: points, the reason, the date, who.

Decisions stand beside the records in a file of their own, one a line, and are laid over what the
grader says whenever records are read. So they survive that the same submission is graded again; a
submission that has changed is another one, and is looked at anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from course_lib.classroom.record import Records, plain

DECIDED = "decided"  # the outcome of a record that a person decided
FILE = "decisions.jsonl"
_SAID = ("reason", "date", "who")

Line = dict[str, Any]  # a record, or a decision
Decisions = Mapping[tuple[str, str, str], Line]  # (student, content, exercise) -> decision


def decide(out: Path, student: str, exercise: str, points: float, reason: str, who: str) -> None:
    """Write a decision about one exercise of a student's last submission, as ``out`` knows it.

    Raises ValueError, in a sentence, if there is nothing to decide or these are no points for it,
    and OSError.
    """
    records = Records(out / "records.jsonl").latest()
    if student not in records:
        raise ValueError(f"{out} holds no records of {student!r}.")
    found = {line["exercise"]: line for line in records[student] if line["exercise"]}
    if exercise not in found:
        known = ", ".join(found) or "none"
        raise ValueError(f"There is no record of exercise {exercise} there, only of: {known}.")
    line = found[exercise]
    if not 0 <= points <= line["max_score"]:
        raise ValueError(f"Exercise {exercise} has 0 to {line['max_score']:g} points.")
    if not reason.strip():
        raise ValueError("A decision needs its reason.")
    decision = {
        "student": student,
        "content": line["content"],
        "exercise": exercise,
        "points": points,
        "reason": plain(reason).strip(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "who": plain(who),
    }
    with open(out / FILE, "a", encoding="utf-8") as file:
        file.write(json.dumps(decision) + "\n")
        file.flush()
        os.fsync(file.fileno())


def latest(records: Records) -> dict[str, list[Line]]:
    """Return student -> the records of their last submission, as people have decided."""
    made = of(records)
    return {student: decided(lines, made) for student, lines in records.latest().items()}


def of(records: Records) -> Decisions:
    """Return the decisions that stand beside these records. Raises ValueError."""
    file, found = records.path.with_name(FILE), {}
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for number, text in enumerate(lines, 1):
        try:
            one = json.loads(text)
            about = one["student"], one["content"], one["exercise"]
            found[about] = {"points": float(one["points"])} | {key: str(one[key]) for key in _SAID}
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{file}, line {number}: this is no decision.") from None
    return found


def outdated(latest: Mapping[str, list[Line]], decisions: Decisions) -> list[str]:
    """Say which decisions no longer count: their student handed in something else since."""
    now = {student: lines[0]["content"] for student, lines in latest.items()}
    return [
        f"{student} {exercise} ({made['points']:g} points)"
        for (student, content, exercise), made in decisions.items()
        if now.get(student, content) != content
        and (student, now[student], exercise) not in decisions
    ]


def decided(records: Sequence[Line], decisions: Decisions) -> list[Line]:
    """Return the records of a submission, in which what a person decided is what counts."""
    return [_decided(line, decisions) for line in records]


def _decided(line: Line, decisions: Decisions) -> Line:
    made = decisions.get((line["student"], line["content"], line["exercise"]))
    if made is None:
        return line
    points, most = made["points"], line["max_score"]
    says = f"A person gave {points:g} of {most:g} points: {made['reason']}"
    return {
        **line,
        "outcome": DECIDED,
        "fault_of": None if points == most else "student",
        "score": points,
        "message": f"{says}\n{line['message']}",
        "decision": made | {"instead_of": line["outcome"]},
    }
