"""How long does a student wait for `check`? Every solved exercise, right answers.

    python benchmarks/check_time.py [LESSON ...]

Goals: 1 s for NumPy and PyTorch checks; for Triton 3 s without the compile for a GPU, 6 s with it.
The compile is timed with an empty cache, as after every change of the kernel. "cpu" is what this
process computed without the compile: on a crowded machine that figure still holds.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from _bench import table
from helpers import solutions

import course_lib  # noqa: F401  first: it chooses Triton's mode
from course_lib.checking import report_for
from course_lib.child import compile_check
from course_lib.specs import EXERCISES

RUNS = 5


def seconds(function: Any) -> tuple[list[float], float]:
    """Return the seconds of RUNS checks, and their median of CPU; each time the answer passes."""
    times, cpu = [], []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as cache:
            os.environ["TRITON_CACHE_DIR"] = cache
            start, computed = time.perf_counter(), time.process_time()
            report = report_for(function)
            times.append(time.perf_counter() - start)
            cpu.append(time.process_time() - computed)
        assert report.passed, report.text()
    return times, statistics.median(cpu)


def row(exercise: Any) -> dict[str, Any]:
    """Return medians with spread, and whether the goals are met."""
    function = getattr(solutions(exercise.lesson), exercise.function)
    report_for(function)  # imports and first-call costs are the notebook's, not the check's
    whole, cpu = seconds(function)
    bare = whole
    if exercise.kind == "kernel":
        real = compile_check.compile_for
        compile_check.compile_for = lambda *args, **kwargs: compile_check.CompileReport(True, "")
        bare, cpu = seconds(function)
        compile_check.compile_for = real
    goal = 3.0 if exercise.kind == "kernel" else 1.0
    met = statistics.median(bare) <= goal and statistics.median(whole) <= max(goal, 2 * goal)
    return {
        "id": exercise.label,
        "kind": exercise.kind,
        "median s": round(statistics.median(bare), 3),
        "min": round(min(bare), 3),
        "max": round(max(bare), 3),
        "cpu": round(cpu, 3),
        "with compile": round(statistics.median(whole), 3) if bare is not whole else "-",
        "goal": "met" if met else "MISSED",
    }


def main() -> int:
    """Print a row per exercise; return 1 if a goal is missed."""
    lessons = {int(word) for word in sys.argv[1:]}
    rows = [row(e) for e in EXERCISES if not lessons or e.lesson in lessons]
    table(rows)
    return int(any(r["goal"] != "met" for r in rows))


if __name__ == "__main__":
    sys.exit(main())
