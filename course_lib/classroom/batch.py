"""Grade a class with several worker processes; a worker that dies loses nothing.

The one that writes records does nothing else. Each worker has zygotes of its own, takes one
submission at a time and sends back its records. If a worker dies its submission is given to
another; if it dies again, that submission's record says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import secrets
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from course_lib.classroom import decisions
from course_lib.classroom.job import Job, Unsafe, is_whole, unsafe, workshop
from course_lib.classroom.record import (
    INFRASTRUCTURE,
    REFUSED,
    Records,
    needs_a_person,
    record,
    versions,
)
from course_lib.handin.submissions import Submission
from course_lib.sandbox.folder import sweep
from course_lib.sandbox.profile import die_with_parent
from course_lib.sandbox.workshop import refuse_windows

TRIES = 2
LONGEST = 3600.0  # seconds for one submission: twice what a worker's own clocks allow
_INTERPRETED_ON_ONE_THREAD = {
    "PYTHONSAFEPATH": "1",  # "spawn" is `python -c`: it would import what lies where we stand
    "TRITON_INTERPRET": "1",
    "CUDA_VISIBLE_DEVICES": "",
    **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")},
}


@dataclass
class Tally:
    """What a run did: submissions graded now, taken over from before, for a person to see; and the
    decisions that count no longer, in words."""

    graded: int = 0
    kept: int = 0
    for_a_person: int = 0
    outdated: Sequence[str] = ()


def secret_of(out: Path, seed_file: Path | None) -> bytes:
    """Return the secret that inputs are drawn from: the given file's, else one kept in ``out``.

    Raises ValueError if the file is too short to be a secret, OSError if it cannot be read.
    """
    own = out / "secret_seed"
    if seed_file is None and not own.exists():
        _write_secret(own)
    source, least = (own, 32) if seed_file is None else (seed_file, 8)
    secret = source.read_bytes().strip()
    if len(secret) >= least:
        return secret
    if seed_file is not None:
        raise ValueError(f"{seed_file}: a seed file holds at least {least} characters.")
    raise ValueError(
        f"{own} holds {len(secret)} characters, a secret at least {least} (was the disk full?): "
        "remove it if nothing has been graded with it, else choose another --out."
    )


def _write_secret(place: Path) -> None:
    """Write a new secret; it is there as a whole or not at all. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=place.parent)  # that nobody else can read
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another run was first: its secret counts
            os.link(name, place)
    finally:
        os.unlink(name)


def require_same_secret(out: Path, secret: bytes, *, graded: bool) -> None:
    """Raise ValueError if ``out`` was ``graded`` with another secret; else remember this one."""
    kept, own = out / "secret_hash", hashlib.sha256(b"course grade|" + secret).hexdigest()
    if graded and kept.exists() and kept.read_text().strip() != own:
        raise ValueError(
            f"{out} was graded with another secret: choose another --out, or give the --seed-file "
            "that it began with."
        )
    with os.fdopen(os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(own + "\n")


def grade_class(
    submissions: Iterable[Submission],
    records: Records,
    job: Job,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    allow_unsandboxed: bool = False,
    progress: Callable[[Submission], None] = lambda submission: None,
) -> Tally:
    """Grade what is not graded yet and append its records.

    ``jobs`` worker processes here do it, or the workers of the Dask ``scheduler`` at an address.
    Raises Unsafe if the sandbox does not hold (and that is not allowed), OSError if a record
    cannot be written.
    """
    done, made, tally = decisions.latest(records), decisions.of(records), Tally()
    waiting: deque[Submission] = deque()
    for submission in submissions:
        before = done.get(submission.student)
        if before and _is_same(before, submission, job) and not _to_redo(before):
            tally.kept += 1
            tally.for_a_person += needs_a_person(before)
            progress(submission)
        else:
            waiting.append(submission)
    if not waiting:
        return tally
    if scheduler:
        from course_lib.classroom import cluster

        results = cluster.work(waiting, job, scheduler, allow_unsandboxed)
    else:
        results = _work(waiting, job, min(jobs, len(waiting)), allow_unsandboxed)
    for submission, found in results:
        stamp = {"asked": list(job.exercises), "for_a_person": submission.note}
        lines = [line | stamp for line in found]
        records.append(lines)
        tally.graded += 1
        tally.for_a_person += needs_a_person(decisions.decided(lines, made))
        progress(submission)
    return tally


def _is_same(lines: Sequence[dict[str, Any]], submission: Submission, job: Job) -> bool:
    """Whether these records are of the same contents and exercises, by this version of the course.

    Another version may judge otherwise. (What a cluster's workers compute with may differ from
    what is installed here, and is no reason.)
    """
    first, asked = lines[0], list(job.exercises)
    same_work = first["content"] == submission.content and first.get("asked") == asked
    return same_work and first["versions"]["course"] == versions()["course"]


def _to_redo(lines: Sequence[dict[str, Any]]) -> bool:
    return any(line["outcome"] == INFRASTRUCTURE for line in lines)


def _work(
    waiting: deque[Submission], job: Job, jobs: int, allow_unsandboxed: bool
) -> Iterator[tuple[Submission, list[dict[str, Any]]]]:
    """Yield each submission with its records, in the order in which they are finished."""
    refuse_windows()  # before workers fail one after the other
    team = [_Worker(job) for _ in range(jobs)]
    tries: dict[str, int] = {}
    left = len(waiting)
    try:
        while left:
            ready = {worker.connection: worker for worker in team}
            for worker in team:
                worker.watch()
            for connection in wait(list(ready), timeout=LONGEST / 100):
                worker = ready[connection]  # type: ignore[index]
                try:
                    kind, content = worker.connection.recv()
                except (EOFError, OSError):
                    kind, content = "dead", None
                if kind == "level" and not is_whole(content) and not allow_unsandboxed:
                    raise Unsafe(unsafe(content))
                lines: list[dict[str, Any]] | None = content if kind == "records" else None
                if kind == "dead":
                    lines = _after_death(worker, waiting, tries)
                    team[team.index(worker)] = replacement = _Worker(job)
                    worker.close()
                if lines is not None and worker.task is not None:
                    left -= 1
                    yield worker.task, lines
                    worker.task = None
                if kind != "dead":
                    worker.give(waiting.popleft() if waiting else None)
                elif not waiting and not any(w.task for w in team):
                    replacement.close()
    finally:
        for worker in team:
            worker.close()
        sweep()


def _after_death(
    worker: _Worker, waiting: deque[Submission], tries: dict[str, int]
) -> list[dict[str, Any]] | None:
    """Put a dead worker's submission back, or give it up and return its record."""
    task = worker.task
    if task is not None and worker.is_stuck:
        says = f"Grading it did not end within {LONGEST / 60:g} minutes."
        return [record(task.student, task.content, None, REFUSED, says)]
    if task is None or not worker.has_begun:  # died before it read what it was given
        waiting.extendleft([task] if task else [])
        tries[""] = tries.get("", 0) + 1
        if tries[""] > 2 * TRIES:
            raise OSError(0, "the workers do not start: run `course doctor`")
        return None
    tries[task.student] = tries.get(task.student, 0) + 1
    if tries[task.student] < TRIES:
        waiting.appendleft(task)
        return None
    why = f"The worker that graded it died {TRIES} times."
    return [record(task.student, task.content, None, INFRASTRUCTURE, why)]


class _Worker:
    """A worker process, its pipe, and the submission it has in hand."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.task: Submission | None = None
        self.has_begun = self.is_stuck = False
        self._since = 0.0
        self.process = context.Process(target=_serve, args=(theirs, job), daemon=True)
        with _environment(_INTERPRETED_ON_ONE_THREAD):
            self.process.start()
        theirs.close()

    def give(self, submission: Submission | None) -> None:
        self.task, self._since = submission, time.monotonic()
        self.has_begun = False
        if submission is not None:
            with contextlib.suppress(OSError):  # died just now: its end of file says so next
                self.connection.send(submission)
                self.has_begun = True

    def watch(self) -> None:
        """Kill a worker that none of its own clocks has stopped: what it does may be in C."""
        if self.task is not None and time.monotonic() - self._since > LONGEST:
            self.is_stuck = True
            self.process.kill()

    def close(self) -> None:
        self.connection.close()
        if self.task is None:  # what is half graded, nobody waits for
            self.process.join(5)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(5)


@contextlib.contextmanager
def _environment(wanted: dict[str, str]) -> Iterator[None]:
    """Let a process that is started in the block begin with these variables."""
    before = dict(os.environ)
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _serve(connection: Connection, job: Job) -> None:
    """In a worker: say how good the sandbox is, then grade what comes until the pipe closes."""
    import signal

    from course_lib.classroom.grade_one import grade

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who types it tells us by closing
    die_with_parent()
    chosen = job.chosen()
    with workshop(outer=job.outer) as room:
        connection.send(("level", room.level))
        while True:
            try:
                submission = connection.recv()
            except (EOFError, OSError):
                return
            lines = grade(room, submission, chosen, job.secret)
            try:
                connection.send(("records", lines))
            except OSError:
                return
