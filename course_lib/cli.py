"""The ``course`` command: one subcommand, one small function.

Exit status: 0 done, 1 not (yet) right, 2 a request that makes no sense, explained in a sentence.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from course_lib import __version__

_NO_DRIFT = "Every notebook is what its source makes."


class UsageError(Exception):
    """The request cannot be met; the message is one sentence for the person who typed it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    from course_lib.authoring.percent import BuildError
    from course_lib.handin.course_file import FileProblem

    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except (UsageError, FileProblem, BuildError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # course list | head
        sys.stderr.close()
        return 0


def doctor(_options: argparse.Namespace) -> int:
    """Say what works on this machine, what does not, and what to do."""
    from course_lib.doctor import can_start, diagnose, examine

    facts = examine()
    print(f"FlashAttention course {__version__}")
    print(*diagnose(facts), sep="\n")
    return 0 if can_start(facts) else 1


def list_exercises(_options: argparse.Namespace) -> int:
    """List the exercises: id, function, minutes, points, title, your status."""
    from course_lib import store
    from course_lib.specs import EXERCISES

    attempts = store.load()["attempts"]
    rows = [("id", "function", "min", "points", "title", "status")]
    rows += [
        (e.label, _call(e), str(e.minutes), str(e.points), e.title, _status(attempts.get(e.id)))
        for e in EXERCISES
    ]
    print(_table(rows, right={2, 3}))
    return 0


def build(options: argparse.Namespace) -> int:
    """Make notebooks/, exercises/ and solutions/ from sources/."""
    import importlib.util

    from course_lib.authoring.build import drift, write
    from course_lib.specs import EXERCISES

    root = Path.cwd()
    if not (root / "sources").is_dir():
        raise UsageError(
            "There is no folder sources/ here: run course build at the top of the course."
        )
    if importlib.util.find_spec("jupytext") is None:
        raise UsageError("course build needs jupytext: pip install -e '.[dev]'")
    if options.check:
        drifting = drift(root, EXERCISES)
        help_ = ["To mend this, edit sources/, never the notebooks, and run: course build"]
        print(*(drifting + help_ if drifting else [_NO_DRIFT]), sep="\n")
        return 1 if drifting else 0
    changed = [path.relative_to(root).as_posix() for path in write(root, EXERCISES)]
    print(*(changed or [_NO_DRIFT]), sep="\n")
    return 0


def check(options: argparse.Namespace) -> int:
    """Check the exercises in a notebook or a script; 0 only if every one of them passed."""
    from course_lib import store
    from course_lib.handin.cells import present
    from course_lib.handin.course_file import code_cells
    from course_lib.specs import EXERCISES

    wanted = [_exercise(options.exercise)] if options.exercise else EXERCISES
    path = Path(options.file)
    cells = code_cells(path)
    found = present(cells, wanted)
    if not found:
        what = f"exercise {wanted[0].label}" if options.exercise else "an exercise of this course"
        raise UsageError(f"{path}: nothing in it is {what} (course list shows what is).")
    sys.path.insert(0, str(path.resolve().parent))  # a script may import its neighbours
    passed = True
    for exercise in found:
        report = _report(cells, exercise)
        store.record_attempt(exercise.id, report.verdict.value)
        print(report.text(), flush=True)
        passed &= report.passed
    return 0 if passed else 1


def hint(options: argparse.Namespace) -> int:
    """Show one more hint for an exercise each time, three at most."""
    import course_lib

    course_lib.hint(_exercise(options.exercise).id)
    return 0


def progress(_options: argparse.Namespace) -> int:
    """Show what is done and what comes next."""
    import course_lib

    course_lib.progress()
    return 0


def catch_up(options: argparse.Namespace) -> int:
    """Put the solution of the step before an exercise in place; your own text is kept."""
    from course_lib import store
    from course_lib.authoring.catch_up import catch_up, previous_step
    from course_lib.specs import EXERCISES

    exercise = _exercise(options.exercise)
    step = previous_step(exercise, EXERCISES)
    done = catch_up(_course_root("exercises", "solutions"), step)
    if done is None:
        print(f"The solution of {step.label} is in place already: nothing was changed.")
        return 0
    notebook, backup, kept = done
    store.note_catch_up(step.id, kept)
    print(
        f"{notebook.name} now holds the solution of {step.label}; your own text is in "
        f"{backup.name} beside it. If the notebook is open, reload it from disk."
    )
    return 0


def variant(options: argparse.Namespace) -> int:
    """Write the notebook of a seeded variant of 7★: the same kernel, one thing changed."""
    from course_lib.authoring import variant_notebook
    from course_lib.specs import variants

    base = options.exercise.strip().replace("★", "-star").removeprefix("ex-")
    if base != variants.BASE:
        raise UsageError(f"Only {variants.BASE} has variants, got {options.exercise!r}.")
    folder = Path(options.out)
    try:
        path = variant_notebook.write(options.seed, folder, force=options.force)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    except FileExistsError as error:
        raise UsageError(f"{error.filename} exists already: move it, or add --force.") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be written to ({error.strerror}).") from None
    exercise = _exercise(f"{variants.BASE}:{options.seed}")
    print(f"{path}: {exercise.title}.")
    print(f"Grade it with: course grade SUBMISSIONS --out DIR --variant {exercise.id}")
    return 0


def export_student(options: argparse.Namespace) -> int:
    """Copy the course without solutions, sources, tests and benchmarks to a new folder."""
    from course_lib.authoring import student_copy

    out = Path(options.out)
    try:
        student_copy.write(_course_root("exercises", "notebooks"), out)
    except student_copy.NoCourse as problem:
        raise UsageError(str(problem)) from None
    except OSError as error:
        raise UsageError(f"{out} cannot be written to ({error.strerror}).") from None
    print(f"{out}: the course without solutions. Students type there: make lab")
    return 0


def export(options: argparse.Namespace) -> int:
    """Write your attention kernel as one file that needs only torch and triton."""
    from course_lib.authoring.catch_up import lesson_notebook
    from course_lib.authoring.export import exported, require_exportable
    from course_lib.handin.cells import BrokenCell, present
    from course_lib.handin.course_file import code_cells

    exercise = _exercise(options.exercise)
    require_exportable(exercise)
    source = options.source
    path = (
        Path(source)
        if source
        else lesson_notebook(_course_root("exercises"), "exercises", exercise)
    )
    cells = code_cells(path)
    if not present(cells, [exercise]):
        raise UsageError(f"{path}: it has no exercise {exercise.label} ({exercise.function}).")
    out = Path(options.output or f"{exercise.function}.py")
    if out.exists() and not options.force:
        raise UsageError(f"{out} exists already: choose another name with -o, or add --force.")
    try:
        text = exported(exercise, cells)
    except BrokenCell as problem:
        raise UsageError(f"{path}: {problem}") from None
    _write(out, text)
    print(f"{out}: {len(text.splitlines())} lines. Run it on any CUDA GPU: python {out}")
    return 0


def grade(options: argparse.Namespace) -> int:
    """Grade a class's submissions in a sandbox; 1 if a person has to look at some."""
    from course_lib.classroom import command
    from course_lib.classroom.cluster import NoCluster
    from course_lib.classroom.job import Unsafe
    from course_lib.handin.files import NoSubmissions
    from course_lib.sandbox.workshop import InfrastructureError

    if options.jobs < 1:
        raise UsageError(f"--jobs must be at least 1, got {options.jobs}.")
    try:
        tally, made = command.run(
            Path(options.submissions),
            Path(options.out),
            jobs=options.jobs,
            scheduler=options.scheduler,
            form=options.format,
            seed_file=Path(options.seed_file) if options.seed_file else None,
            allow_unsandboxed=options.allow_unsandboxed,
            variant=_exercise(options.variant).id if options.variant else None,
        )
    except (NoSubmissions, NoCluster, Unsafe, InfrastructureError, ValueError) as problem:
        raise UsageError(str(problem)) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise UsageError(f"{where}{error.strerror}. What is graded so far is kept.") from None
    print(f"{tally.graded} graded, {tally.kept} graded before; {options.out}/records.jsonl")
    if made:
        print(made)
    if tally.for_a_person:
        where = "`refused`, `infrastructure` and `for_a_person`"
        print(f"{tally.for_a_person} need a person: see {where} there.")
    return 1 if tally.for_a_person else 0


def html(options: argparse.Namespace) -> int:
    """Run a notebook and write it as one HTML page whose widgets move without a kernel."""
    from course_lib.authoring.html_page import page

    notebook = Path(options.notebook)
    out = Path(options.output or f"{notebook.stem}.html")
    if out.exists() and not options.force:
        raise UsageError(f"{out} exists already: choose another name with -o, or add --force.")
    _write(out, page(notebook))
    print(f"{out}: open it in any browser; it needs no network.")
    return 0


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out} cannot be written ({error.strerror}).") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="course", description="The FlashAttention course.")
    parser.add_argument("--version", action="version", version=f"course {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add(commands, "doctor", doctor)
    _add(commands, "list", list_exercises)
    made = _add(commands, "build", build)
    made.add_argument("--check", action="store_true", help="change nothing; say what drifts")
    checked = _add(commands, "check", check)
    checked.add_argument("file", metavar="FILE", help="a notebook or a Python script")
    checked.add_argument("exercise", metavar="EXERCISE", nargs="?", help="only this one, e.g. 3.3")
    _add(commands, "hint", hint).add_argument("exercise", metavar="ID")
    _add(commands, "progress", progress)
    _add(commands, "catch-up", catch_up).add_argument("exercise", metavar="ID")
    sent = _add(commands, "export", export)
    sent.add_argument("exercise", metavar="ID", help="7.4 or 7-star")
    sent.add_argument("--from", dest="source", metavar="FILE", help="default: your exercises")
    sent.add_argument("-o", "--output", metavar="OUT", help="default: my_flash_attention.py")
    sent.add_argument("--force", action="store_true", help="overwrite OUT")
    varied = _add(commands, "variant", variant)
    varied.add_argument("exercise", metavar="7-star", help="the one exercise that has variants")
    varied.add_argument("--seed", metavar="S", required=True, help="chooses kind and parameters")
    varied.add_argument("--out", metavar="DIR", default=".", help="default: the current folder")
    varied.add_argument("--force", action="store_true", help="overwrite the notebook")
    copied = _add(commands, "export-student", export_student)
    copied.add_argument("out", metavar="OUT", help="a new or an empty folder")
    shown = _add(commands, "html", html)
    shown.add_argument("notebook", metavar="NOTEBOOK")
    shown.add_argument("-o", "--output", metavar="OUT", help="default: the notebook's name, .html")
    shown.add_argument("--force", action="store_true", help="overwrite OUT")
    graded = _add(commands, "grade", grade)
    graded.add_argument("submissions", metavar="SUBMISSIONS", help="a folder or a zip")
    graded.add_argument("--out", metavar="DIR", required=True, help="for records and gradebooks")
    graded.add_argument("--jobs", metavar="N", type=int, default=1, help="worker processes")
    graded.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster to do the work")
    graded.add_argument(
        "--format",
        choices=("gradescope", "canvas", "moodle", "junit", "csv"),
        help="a gradebook beside the records",
    )
    graded.add_argument(
        "--variant", metavar="7-star:SEED", help="grade this seeded variant and nothing else"
    )
    graded.add_argument("--seed-file", metavar="F", help="the secret that inputs are drawn from")
    graded.add_argument(
        "--allow-unsandboxed",
        action="store_true",
        help="grade even where the sandbox does not hold",
    )
    return parser


def _add(commands: Any, name: str, run: Callable[..., int]) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
    parser.set_defaults(run=run)
    return parser


def _exercise(name: str) -> Any:
    from course_lib.specs import UnknownExercise, find

    try:
        return find(name)
    except UnknownExercise as problem:
        raise UsageError(str(problem)) from None


def _report(cells: Any, exercise: Any) -> Any:
    """Return the report on an exercise; a cell that cannot be loaded is an error like any other."""
    from course_lib.handin.cells import BrokenCell, load
    from course_lib.judging.check import report_for
    from course_lib.judging.report import Report, Verdict

    try:
        return report_for(load(cells, exercise))
    except (BrokenCell, TypeError, LookupError) as problem:
        return Report(exercise, Verdict.ERROR, (str(problem),))


def _course_root(*needed: str) -> Path:
    """Return the folder of the course: around here, or the one this package stands in."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parent.parent):
        if all((folder / name).is_dir() for name in needed):
            return folder
    folders = " and ".join(f"{name}/" for name in needed)
    raise UsageError(f"There are no folders {folders} here: run this in the course.")


def _call(exercise: Any, width: int = 50) -> str:
    """Return ``name(arguments)``, however the spec writes its signature; cut if it is long."""
    call = exercise.function + exercise.signature.removeprefix(exercise.function)
    return call if len(call) <= width else f"{call[: width - 2].rstrip(', ')}…)"


def _status(attempt: dict[str, Any] | None) -> str:
    if not attempt:
        return "–"
    return "passed" if attempt.get("passed") else attempt.get("last", "–")


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


if __name__ == "__main__":
    sys.exit(main())
