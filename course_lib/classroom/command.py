"""What ``course grade`` does, apart from reading its arguments."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from course_lib.classroom import decisions
from course_lib.classroom.batch import Tally, grade_class, require_same_secret, secret_of
from course_lib.classroom.gradebooks import FORMATS, canvas
from course_lib.classroom.job import Job, Unsafe
from course_lib.classroom.record import Records
from course_lib.handin.submissions import Submission, submissions
from course_lib.sandbox import bubblewrap


def run(
    place: Path,
    out: Path,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    form: str | None = None,
    seed_file: Path | None = None,
    allow_unsandboxed: bool = False,
    only: tuple[str, ...] = (),
    title: str | None = None,
    outer: bool = False,
) -> tuple[Tally, Path | None]:
    """Grade ``place`` into ``out``; return the tally and the file made for ``form``.

    ``only``: ids of exercises, or of a seeded variant; these and no others are graded.
    ``title`` heads the points in Canvas. ``outer`` grades in bubblewrap.
    Raises NoSubmissions, Unsafe, ValueError and OSError, each with one clear sentence.
    """
    if outer and not scheduler and (why := bubblewrap.problem()):
        raise Unsafe(f"{why}: install it and allow user namespaces, or leave out --bubblewrap.")
    found = list(submissions(place, out))
    out.mkdir(parents=True, exist_ok=True)
    records = Records(out / "records.jsonl")
    _require_same_exercises(records, out, only)
    secret = secret_of(out, seed_file)
    require_same_secret(out, secret, graded=records.path.exists())
    job = Job(secret, only, outer)
    with _ended_by_signals(), _progress(len(found)) as step:
        tally = grade_class(
            found,
            records,
            job,
            jobs=jobs,
            scheduler=scheduler,
            allow_unsandboxed=allow_unsandboxed,
            progress=step,
        )
    graded = {s.student for s in found}
    latest = {name: lines for name, lines in decisions.latest(records).items() if name in graded}
    tally.outdated = decisions.outdated(latest, decisions.of(records))
    if form == "canvas" and title:
        return tally, canvas.write(latest, out, title)
    return tally, FORMATS[form](latest, out) if form else None


def _require_same_exercises(records: Records, out: Path, only: tuple[str, ...]) -> None:
    """Raise ValueError if ``out`` was begun for other exercises: they would count as done. Else
    remember these."""
    kept, asked = out / "exercises", " ".join(sorted(only)) or "all"
    begun = kept.read_text(encoding="utf-8").strip() if kept.exists() else "all"
    if records.path.exists() and begun != asked:
        raise ValueError(f"{out} holds records of {begun}: choose another --out for {asked}.")
    kept.touch(0o600)
    kept.write_text(asked + "\n", encoding="utf-8")


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as SIGINT does, so that nothing is left behind."""

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # `timeout` sends it twice
        raise SystemExit(128 + number)

    taken = []
    if threading.current_thread() is threading.main_thread():
        signals = (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP"))  # or Windows
        taken = [one for one in signals if one and signal.getsignal(one) is signal.SIG_DFL]
    for one in taken:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Submission], None]]:
    """Give a function to call after each submission; it moves a bar on the terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    numbers = (MofNCompleteColumn(), TimeElapsedColumn(), "left", TimeRemainingColumn())
    console = Console(file=sys.stderr)
    off = not console.is_terminal
    with Progress("grading", BarColumn(), *numbers, console=console, disable=off) as bar:
        task = bar.add_task("", total=total)
        yield lambda submission: bar.advance(task)
