"""How long do `nbgrader autograde` and `course grade` take for the same notebooks?

    python benchmarks/nbgrader_ratio.py [--lesson 1] [--submissions 4] [--write]

Each submission is the solved notebook of a lesson, with a comment of its own. nbgrader runs in its
own environment (`make test-nbgrader` makes it) and executes every cell with the course's Python,
one submission after the other; `course grade` judges the exercises in the sandbox, with one worker.
Both start cold and are told apart into user, system and wall seconds of all their processes. The
two do not do the same work: nbgrader runs the whole notebook and believes `check`; ours runs the
exercises alone, on secret inputs, under a sandbox, and compiles the last kernel.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import _bench

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / ".ci"))

from nbgrader_course import COURSE_PYTHON, Course, Failed, solved_cells, with_cells  # noqa: E402

NBGRADER = ROOT / ".env-nbgrader" / "bin" / "python"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lesson", type=int, default=1)
    parser.add_argument("--submissions", type=int, default=4)
    parser.add_argument("--write", action="store_true", help="keep the record with the course")
    options = parser.parse_args()
    if options.submissions < 1:
        raise SystemExit("--submissions must be at least 1.")
    if not NBGRADER.exists():
        raise SystemExit(f"{NBGRADER} is missing: make test-nbgrader makes it.")
    (notebook,) = (ROOT / "exercises").glob(f"{options.lesson:02}_*.ipynb")
    with tempfile.TemporaryDirectory() as name:
        try:
            rows = compare(Path(name), notebook, options.submissions)
        except Failed as problem:
            raise SystemExit(str(problem)) from None
    _bench.table(rows)
    nbgrader, ours = rows
    ratio = {key: nbgrader[key] / ours[key] for key in ("cpu_s", "wall_s")}
    print(
        f"nbgrader / course grade: {ratio['cpu_s']:.2f} in CPU, {ratio['wall_s']:.2f} in wall time"
    )
    record: dict[str, Any] = {
        "question": f"nbgrader autograde or course grade, lesson {options.lesson:02}: which costs?",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "submissions": options.submissions,
        "load_before": os.getloadavg()[0],
        "date": datetime.now(UTC).date().isoformat(),
        "nbgrader_over_ours": ratio,
        "runs": rows,
    }
    if options.write:
        _bench.save(record, f"nbgrader_ratio_lesson_{options.lesson:02}")


def compare(folder: Path, notebook: Path, n: int) -> list[dict[str, Any]]:
    """Grade ``n`` copies both ways; return a row each."""
    course = Course(folder, notebook, NBGRADER)
    course.run("generate_assignment", course.assignment)
    solved = solved_cells(notebook)
    first, text = next(iter(solved.items()))
    place = folder / "class"
    place.mkdir()
    for i in range(n):
        whole = with_cells(course.released(), solved | {first: f"{text}\n# student {i}"})
        course.hand_in(f"student{i}", whole)
        (place / f"student{i}.ipynb").write_text(whole, encoding="utf-8")
    theirs = timed(lambda: course.run("autograde", course.assignment, "--create"))
    ours = timed(lambda: grade(place, folder / "out"))
    return [{"grader": "nbgrader", **theirs}, {"grader": "course", **ours}]


def grade(place: Path, out: Path) -> None:
    """Run ``course grade`` as an instructor does; exit if a solution does not pass."""
    command = [COURSE_PYTHON, "-m", "course_lib.cli", "grade", place, "--out", out]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    records = (out / "records.jsonl").read_text(encoding="utf-8") if not done.returncode else ""
    if done.returncode or any('"score": 0' in line for line in records.splitlines()):
        raise SystemExit(f"course grade: a solution does not pass\n{done.stderr[-2000:]}")


def timed(run: Any) -> dict[str, float]:
    """Return user, system, CPU and wall seconds of a call's child processes."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run()
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - wall
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return {"user_s": user, "system_s": system, "cpu_s": user + system, "wall_s": wall}


if __name__ == "__main__":
    main()
