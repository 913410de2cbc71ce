"""`course watch FILE`: check again on every save what has changed in it."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from course_lib.cli.shared import UsageError, exercise_called

_LOOK = 0.25  # seconds between two looks at the file: a save is done when two looks are the same

Stamp = tuple[int, int]  # when it was written, and its size


def watch(options: argparse.Namespace) -> int:
    """Check the exercises of a file, then again on each save those that changed; Ctrl-C ends it."""
    from course_lib import lessons
    from course_lib.handin.cells import present
    from course_lib.handin.course_file import FileProblem, code_cells

    path = Path(options.file)
    wanted = [exercise_called(options.exercise)] if options.exercise else lessons.all_exercises()
    if not present(code_cells(path), wanted):
        raise UsageError(f"{path}: nothing in it is an exercise that is asked for.")
    seen: dict[str, str] = {}
    running: subprocess.Popen[bytes] | None = None
    try:
        for first in _saves(path):
            if running is not None and running.poll() is None:  # what it says is old already
                running.terminate()
                running.wait()
            try:
                changed, problems = _changed(path, wanted, seen, first)
            except FileProblem as problem:  # half saved, or gone: the next save tells
                changed, problems = [], [str(problem)]
            print(*_heading(path, changed, problems), sep="\n", flush=True)
            running = _check(path, changed) if changed else None
    finally:
        if running is not None:
            running.terminate()
    return 0


def _saves(path: Path) -> Iterator[bool]:
    """Yield True now, and False after each save: when the file changed, and then stood still."""
    yield True
    known = before = _stamp(path)
    while True:
        time.sleep(_LOOK)
        now = _stamp(path)
        if now is not None and now == before and now != known:
            known = now
            yield False
        before = now


def _stamp(path: Path) -> Stamp | None:
    """Return when a file was written and its size; None while an editor replaces it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _changed(
    path: Path, wanted: Sequence[Any], seen: dict[str, str], first: bool
) -> tuple[list[str], list[str]]:
    """Return the exercises to check, and what is wrong with cells that are no Python.

    An exercise has changed when something has that it needs. At first, blanks are passed over.
    ``seen`` remembers what each exercise was when it was last looked at.
    """
    from course_lib.handin.blank import is_blank
    from course_lib.handin.cells import BrokenCell, present, program
    from course_lib.handin.course_file import code_cells

    cells = code_cells(path)
    changed, problems = [], []
    for exercise in present(cells, wanted):
        try:
            text = program(cells, exercise)
        except BrokenCell as problem:
            seen[exercise.id] = ""
            problems.append(f"{path}: {problem}")
            continue
        if seen.get(exercise.id) != text and not (first and is_blank(text)):
            changed.append(exercise.id)
        seen[exercise.id] = text
    return changed, list(dict.fromkeys(problems))


def _heading(path: Path, changed: list[str], problems: list[str]) -> Iterator[str]:
    """Yield the lines that stand above the verdicts."""
    at = time.strftime("%H:%M:%S")
    yield from problems
    if changed:
        yield f"── {at} {path.name}: {', '.join(changed)}"
    elif not problems:
        yield f"── {at} {path.name}: nothing to check; waiting for a save (Ctrl-C ends it)"


def _check(path: Path, exercises: list[str]) -> subprocess.Popen[bytes]:
    """Start `course check` in a process of its own: what hangs or crashes there does not here."""
    command = [sys.executable, "-P", "-m", str(__package__), "check", str(path), *exercises]
    return subprocess.Popen(command)
