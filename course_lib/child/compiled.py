"""What needs the compiler, in a child; where there is none, what was recorded of it on Linux.

A record is found by its key: the task, the source, and what the launcher is called with. So it is
there for the kernels that the lessons compile, as they stand, and for no others.
"""

from __future__ import annotations

import hashlib
from typing import Any

from course_lib.accounting.measurements import load_measurements
from course_lib.child.extract import Extract
from course_lib.child.process import ChildFailure, ChildResult, run
from course_lib.laptop import NO_COMPILER, interpreter_only

RECORD = "compiled_lessons"


def compiled(piece: Extract, task: str, job: dict[str, Any], timeout: float) -> ChildResult:
    """Run a task that compiles, on extracted source; a line says if the answer is a record."""
    if not interpreter_only():
        return run(piece, task, job, mode="compile", timeout=timeout)
    record = load_measurements(RECORD)
    for row in record["rows"]:
        if row["key"] == key(piece, task, job):
            made = f"recorded with Triton {record['versions']['triton']}, {record['date']}"
            print(f"What the compiler said of `{piece.name}` was {made}: {NO_COMPILER}")
            return ChildResult(row["answer"], None, "", 0.0)
    says = f"{NO_COMPILER} Nothing is recorded of `{piece.name}`; on Linux or Colab it is compiled."
    return ChildResult(None, ChildFailure("infrastructure", "", says), "", 0.0)


def key(piece: Extract, task: str, job: dict[str, Any]) -> str:
    """Return what stands for one question to the compiler."""
    asked = sorted((name, value) for name, value in job.items() if name != "origins")
    return hashlib.sha256(repr((task, piece.source, asked)).encode()).hexdigest()[:16]
