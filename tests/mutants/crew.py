"""Warm processes that judge programs one after the other, and may hang or die while they do.

Each holds Triton and the specs; one that dies or takes too long is replaced, and the program that
did it counts as failed. Works where only NumPy, torch, Triton and this repository are.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unittest import mock

from course_lib import _mode

SECONDS = 8.0  # of one case: a right one takes less than a second
PATIENCE = 120.0  # of one program, before its process is ended
_MEMORY = 8 << 30


@dataclass(frozen=True)
class Job:
    """A program to be judged: its exercise's id and its text. ``key`` is the caller's.

    ``named``: what is wrong is to be said, too; who asks only whether it passes has no use for it.
    """

    key: int
    exercise: str
    text: str
    seed: int = 1
    compiled: bool = False
    named: bool = True


@dataclass(frozen=True)
class Outcome:
    """What the check said of it: verdict, failed property, name of the mistake."""

    verdict: str
    failed: str = ""  # the property that breaks
    misconception: str = ""
    text: str = ""

    @property
    def passed(self) -> bool:
        return self.verdict == "passed"


def judged(jobs: Iterable[Job], processes: int) -> Iterator[tuple[Job, Outcome]]:
    """Yield what came of each job, in the order in which they end."""
    waiting = iter(jobs)
    crew = [_Member() for _ in range(processes)]
    busy: dict[Connection, _Member] = {}
    try:
        for member in crew:
            member.take(next(waiting, None), busy)
        while busy:
            ready = wait(list(busy), timeout=1.0)
            for member in list(busy.values()):
                if member.here in ready or member.is_late:
                    del busy[member.here]
                    yield member.job, member.finish()
                    member.take(next(waiting, None), busy)
    finally:
        for member in crew:
            member.end()


class _Member:
    """One process, started when it first has something to do."""

    def __init__(self) -> None:
        self.process: Any = None
        self.here: Any = None
        self.job: Any = None
        self._deadline = 0.0

    @property
    def is_late(self) -> bool:
        return _now() > self._deadline

    def take(self, job: Job | None, busy: dict[Connection, _Member]) -> None:
        if job is None:
            return
        if self.process is None:
            self.here, there = _context().Pipe()
            self.process = _context().Process(target=_work, args=(there,), daemon=True)
            self.process.start()
            there.close()
        self.job, self._deadline = job, _now() + PATIENCE
        with contextlib.suppress(BrokenPipeError):
            self.here.send(job)
        busy[self.here] = self

    def finish(self) -> Any:
        """Return the answer; a process that has none is ended, the next job gets another."""
        how = "the process hung"
        if self.here.poll():
            try:
                return self.here.recv()
            except (EOFError, ConnectionError):
                how = "the process died"
        self.end()
        return Outcome("error", how)

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.here.close()
        self.process = None


@cache
def _context() -> Any:
    """Return how a process starts: forked by one that has only imported what a judge needs.

    Forked from this one, with torch's threads, it could hang; a GPU's driver survives no fork.
    """
    if sys.platform != "linux" or _mode.cuda_devices():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(
        ["course_lib.judging.engine", "course_lib.judging.hosts.here", "course_lib.specs"]
    )
    return context


def _now() -> float:
    return time.monotonic()


# In a member ------------------------------------------------------------------------------------


def _work(there: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # whatever a mutant prints, or a dying C library
        os.dup2(nothing, stream)
    warnings.simplefilter("ignore")
    with contextlib.suppress(EOFError), tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        while True:
            there.send(judge(there.recv(), Path(folder)))


def judge(job: Job, folder: Path) -> Outcome:
    """Judge one program in this process, as `check` does."""
    import numpy as np

    from course_lib.judging import engine
    from course_lib.judging.hosts.here import Here
    from course_lib.sandbox.limit import TookTooLong, at_most
    from course_lib.specs import find

    exercise = replace(find(job.exercise), seconds=SECONDS)
    unnamed = {"recognise": lambda *_: None, "_smallest": lambda *_: []}
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(at_most(PATIENCE / 2))
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            if not job.named:
                stack.enter_context(mock.patch.multiple(engine, **unnamed))
            function = _function(job, folder, exercise.function)
            cases = exercise.cases(np.random.default_rng(job.seed))
            report = engine.first_failure(exercise, Here(exercise, function), cases)
            if report.passed and job.compiled and exercise.kind == "kernel":
                from course_lib.checking import _compiled

                report = _compiled(report, function, job.seed)
    except (Exception, TookTooLong) as error:  # while it is imported, or of our own code
        return Outcome("error", type(error).__name__, text=str(error)[:300])
    words = " ".join(report.text().split())[:600] if not report.passed else ""
    return Outcome(report.verdict.value, report.failed_property, report.misconception, words)


def _function(job: Job, folder: Path, name: str) -> Any:
    """Write the program to a file, as inspect wants it, and import it."""
    for module in [m for m in sys.modules if m.startswith("program_")]:
        del sys.modules[module]
    file = folder / f"program_{job.key}.py"
    file.write_text(job.text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return getattr(module, name)
