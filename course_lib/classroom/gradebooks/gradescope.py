"""Gradescope: a ``results.json`` for each submission, as its autograder reads it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_lib.classroom.record import Class, Lines, total


def write(records: Class, folder: Path) -> Path:
    """Write ``gradescope/STUDENT/results.json`` for each student; return ``gradescope``."""
    for student, lines in records.items():
        place = folder / "gradescope" / _file_name(student)
        place.mkdir(parents=True, exist_ok=True)
        text = json.dumps(results(lines), indent=1)
        (place / "results.json").write_text(text, encoding="utf-8")
    return folder / "gradescope"


def results(lines: Lines) -> dict[str, Any]:
    """Return what ``results.json`` holds for one submission."""
    return {
        "score": total(lines)[0],
        "execution_time": round(sum(line.get("seconds", 0.0) for line in lines)),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_test(line) for line in lines],
    }


def _test(line: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": f"{line['exercise']} {line['function']}" if line["exercise"] else "submission",
        "name_format": "text",
        "number": str(line["exercise"] or 0),
        "score": line["score"],
        "max_score": line["max_score"],
        "status": "failed" if line["fault_of"] else "passed",
        "output": f"{line['outcome']}\n{line['message']}",
        "output_format": "text",
        "visibility": "visible",
    }


def _file_name(student: str) -> str:
    """Return a file name for a student: letters and digits, and a hash that keeps it unique."""
    letters = re.sub(r"[^A-Za-z0-9]+", "_", student).strip("_")[:40]
    return f"{letters or 'student'}-{hashlib.sha256(student.encode()).hexdigest()[:32]}"
