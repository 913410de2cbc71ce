"""For students: see what there is, check it, get help, take it along."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from course_lib import __version__
from course_lib.cli import given
from course_lib.cli.shared import UsageError, exercise_called, write


def doctor(_options: argparse.Namespace) -> int:
    """Say what works on this machine, what does not, and what to do."""
    from course_lib.doctor import can_start, diagnose, examine

    facts = examine()
    print(f"FlashAttention course {__version__}")
    print(*diagnose(facts), sep="\n")
    return 0 if can_start(facts) else 1


def triton(_options: argparse.Namespace) -> int:
    """Install Triton's interpreter where Triton has no wheels: 0.5 MB come, 1 MB stays."""
    from course_lib.laptop.install import NotInstalled, install

    try:
        print(install())
    except NotInstalled as why:
        print(f"Triton's interpreter is not installed. {why}", file=sys.stderr)
        return 1
    return 0


def list_exercises(_options: argparse.Namespace) -> int:
    """List the exercises: id, function, minutes, points, title, your status."""
    from course_lib import lessons, store

    attempts = store.load()["attempts"]
    rows = [("id", "function", "min", "points", "title", "status")]
    rows += [
        (e.label, _call(e), str(e.minutes), str(e.points), e.title, _status(attempts.get(e.id)))
        for e in lessons.all_exercises()
    ]
    print(_table(rows, right={2, 3}))
    return 0


def check(options: argparse.Namespace) -> int:
    """Check the exercises in a notebook or a script; 0 only if every one of them passed."""
    from course_lib import lessons, store
    from course_lib.handin.cells import present
    from course_lib.handin.course_file import code_cells

    wanted = [exercise_called(name) for name in options.exercises] or lessons.all_exercises()
    path = Path(options.file)
    cells = code_cells(path)
    found = present(cells, wanted)
    if not found:
        asked = " or ".join(e.label for e in wanted) if options.exercises else ""
        what = f"exercise {asked}" if asked else "an exercise of this course"
        raise UsageError(f"{path}: nothing in it is {what} (course list shows what is).")
    # A script may import its neighbours; one named like a library stands in nobody's way.
    sys.path.append(str(path.resolve().parent))
    passed = True
    for exercise in found:
        report = _report(cells, exercise_called(exercise.id))
        store.record_attempt(exercise.id, report.verdict.value)
        print(report.text(), flush=True)
        passed &= report.passed
    return 0 if passed else 1


def hint(options: argparse.Namespace) -> int:
    """Show one more hint for an exercise each time, three at most."""
    import course_lib
    from course_lib.lessons import UnknownExercise

    try:
        course_lib.hint(options.exercise)
    except UnknownExercise as problem:
        raise UsageError(str(problem)) from None
    return 0


def progress(_options: argparse.Namespace) -> int:
    """Show what is done and what comes next."""
    import course_lib

    course_lib.progress()
    return 0


def export(options: argparse.Namespace) -> int:
    """Write your attention kernel as one file that needs only torch and triton."""
    from course_lib.authoring.export import exported, require_exportable, written
    from course_lib.handin.cells import BrokenCell, load, present
    from course_lib.handin.course_file import code_cells

    exercise = exercise_called(options.exercise)
    require_exportable(exercise)
    path = Path(options.source) if options.source else given.notebook_of(exercise)
    if path is None:
        raise UsageError(
            "There is no notebook of yours here: name one with --from, or type in the notebook "
            f"itself: from course_lib import export; export({exercise.function})"
        )
    cells = code_cells(path)
    if not present(cells, [exercise]):
        raise UsageError(f"{path}: it has no exercise {exercise.label} ({exercise.function}).")
    out = Path(options.output or f"{exercise.function}.py")
    if out.exists() and not options.force:
        raise UsageError(f"{out} exists already: choose another name with -o, or add --force.")
    try:
        text = exported(exercise, load(cells, exercise))
    except BrokenCell as problem:
        raise UsageError(f"{path}: {problem}") from None
    write(out, text)
    print(written(out, text))
    return 0


def html(options: argparse.Namespace) -> int:
    """Run a notebook and write it as one HTML page whose widgets move without a kernel."""
    from course_lib.authoring.html_page import page

    notebook = Path(options.notebook)
    out = Path(options.output or f"{notebook.stem}.html")
    if out.exists() and not options.force:
        raise UsageError(f"{out} exists already: choose another name with -o, or add --force.")
    write(out, page(notebook))
    print(f"{out}: open it in any browser; it needs no network.")
    return 0


def _report(cells: Any, exercise: Any) -> Any:
    """Return the report on an exercise; a cell that cannot be loaded is an error like any other."""
    from course_lib.checking import report_for
    from course_lib.handin.cells import BrokenCell, load
    from course_lib.judging.report import Report, Verdict

    try:
        return report_for(load(cells, exercise))
    except (BrokenCell, TypeError, LookupError) as problem:
        return Report(exercise, Verdict.ERROR, (str(problem),))


def _call(exercise: Any, width: int = 50) -> str:
    """Return ``name(arguments)``, however the spec writes its signature; cut if it is long."""
    call = exercise.function + exercise.signature.removeprefix(exercise.function)
    return call if len(call) <= width else f"{call[: width - 2].rstrip(', ')}…)"


def _status(attempt: dict[str, Any] | None) -> str:
    if not attempt:
        return "–"
    if attempt.get("passed"):
        return "passed"
    return "gave up" if attempt.get("gave_up") else attempt.get("last", "–")


def _table(rows: Sequence[Sequence[str]], right: set[int]) -> str:
    """Align columns with two spaces between them; ``right`` names the right-aligned ones."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
