"""What does it cost to grade a complete submission of lesson 07, in core-seconds?

    python benchmarks/grade_class.py [--lesson 7] [--repeats 3] [--write]

The submission is the solutions' notebook. Counted is CPU time of every process that takes part
(student, device, compiler, splitter, judge), with the zygotes already warm, as in a class; a fixed
loop of plain Python is timed beside it, so that figures of a crowded machine can be recognised.
The goal of the course: at most 6 core-seconds, judging at most 20 % of running.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}

import _bench

import course_lib  # noqa: F401  it chooses Triton's mode
from course_lib.classroom import job
from course_lib.classroom.grade_one import grade
from course_lib.classroom.record import versions
from course_lib.handin.submissions import Submission
from course_lib.sandbox.workshop import Child, Workshop
from course_lib.specs import EXERCISES

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lesson", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="keep the record with the course")
    options = parser.parse_args()
    (file,) = (ROOT / "solutions").glob(f"{options.lesson:02}_*.ipynb")
    submission = Submission("solution", ((file.name, file.read_bytes()),))
    with job.workshop() as workshop:
        measure(workshop, submission)  # the compiler's zygote starts, files are read once
        runs = [measure(workshop, submission) for _ in range(options.repeats)]
        level = workshop.level
    _bench.table(runs)
    record: dict[str, Any] = {
        "question": f"What does a complete submission of lesson {options.lesson:02} cost?",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "sandbox": level,
        "versions": versions(),
        "date": datetime.now(UTC).date().isoformat(),
        "median_core_seconds": statistics.median(run["core_s"] for run in runs),
        "runs": runs,
    }
    if options.write:
        _bench.save(record, f"grading_lesson_{options.lesson:02}")


def measure(workshop: Workshop, submission: Submission) -> dict[str, float]:
    """Grade once; return seconds: all CPU, confined, judging, wall, and the calibrating loop."""
    confined: list[Child] = []
    end = Child.end

    def counted(child: Child) -> dict[str, Any]:
        if not child.usage:
            confined.append(child)
        return end(child)

    Child.end = counted  # type: ignore[method-assign]
    try:
        wall, own = time.perf_counter(), time.process_time()
        lines = grade(workshop, submission, EXERCISES, os.urandom(16))
        wall, own = time.perf_counter() - wall, time.process_time() - own
    finally:
        Child.end = end  # type: ignore[method-assign]
    wrong = [line["exercise"] for line in lines if line["outcome"] != "passed"]
    if wrong:
        raise SystemExit(f"the solution of {', '.join(map(str, wrong))} does not pass")
    inside = sum(child.usage["cpu_seconds"] for child in confined)
    judging = sum(line["judging_seconds"] for line in lines)
    running = sum(line["cpu_seconds"] for line in lines)
    return {
        "core_s": own + inside,
        "running_s": running,
        "judging_s": judging,
        "judging_share": judging / running,
        "splitting_and_compiling_s": inside - running,
        "wall_s": wall,
        "loop_s": loop_seconds(),
    }


def loop_seconds() -> float:
    """Time a fixed amount of plain Python, in CPU seconds."""
    start, total = time.process_time(), 0
    for i in range(10_000_000):
        total += i
    return time.process_time() - start


if __name__ == "__main__":
    main()
