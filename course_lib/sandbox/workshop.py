"""The parent's side: start a zygote, ask it for children, talk to them, end them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

from course_lib.sandbox.allowed import COURSE, closed_files
from course_lib.sandbox.bubblewrap import wrapped
from course_lib.sandbox.channel import Channel
from course_lib.sandbox.folder import Folder, sweep
from course_lib.sandbox.limit import Deadline, own_seconds, started_seconds

_ROOT = str(COURSE.parent)
_PYTHON = (sys.executable, "-I", "-c")
_START = (
    "import sys; sys.path.append(sys.argv[1]); from course_lib.sandbox import zygote; "
    "zygote.main(int(sys.argv[2]), sys.argv[3:])"
)
_STUDENT = "course_lib.sandbox.student"
_INTERPRETER = "course_lib.sandbox.interpreter"
_COMPILER = "course_lib.sandbox.compiler"
_WITHOUT_TORCH = "course_lib.sandbox.without_torch"
_IMPORTS = {
    "interpreter": ("numpy", "torch", "triton", "triton.language", _STUDENT, _INTERPRETER),
    "compile": ("numpy", "torch", "triton", "triton.language", _COMPILER),
    "without torch": ("numpy", _WITHOUT_TORCH),
}
_MOMENT = 0.1  # seconds
Mode = Literal["interpreter", "compile", "without torch"]

Level = Literal["full in bubblewrap", "full", "limits-only", "none"]


class InfrastructureError(Exception):
    """The fault is the grader's or the machine's, never the student's."""


def refuse_windows() -> None:
    """Raise InfrastructureError on a system that nothing of the sandbox is made for."""
    if not hasattr(os, "fork"):
        says = "Grading needs Linux (or macOS, unsandboxed); on Windows, grade in WSL."
        raise InfrastructureError(says)


class Child:
    """One confined process. Use as a context manager: it never outlives the block."""

    def __init__(self, zygote: Zygote, pid: int, end: socket.socket, nonce: bytes) -> None:
        self.pid, self._zygote, self._end = pid, zygote, end
        self.usage: dict[str, Any] = {}
        self._started, self._look = 0.0, 0.0  # seconds of what it started; when to ask again
        channel = Channel(end.fileno(), nonce)
        self.send, self.receive = channel.send, channel.receive

    def ask(self, message: Any, deadline: Deadline) -> Any:
        """Send a message and return the answer; the errors of `Channel`."""
        self.send(message, deadline=deadline)
        return self.receive(deadline)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the child has used so far, 0 where nobody knows.

        Asked for with every message, so that of what it started comes a moment late.
        """
        if self.usage:
            return float(self.usage["cpu_seconds"])
        if (now := time.monotonic()) >= self._look:
            self._started, self._look = started_seconds(self.pid), now + _MOMENT
        return own_seconds(self.pid) + self._started

    def wait(self, seconds: float) -> None:
        """Wait until the child has ended by itself, so that `end` knows how; no longer than that.

        Where the system cannot say (before Linux 5.3), nobody waits.
        """
        with contextlib.suppress(OSError, AttributeError):
            process = os.pidfd_open(self.pid)
            try:
                select.select([process], [], [], seconds)
            finally:
                os.close(process)

    def end(self) -> dict[str, Any]:
        """Kill the child and all it started; return exit status, CPU seconds, peak bytes."""
        if not self.usage:
            self._end.close()
            self.usage = self._zygote._request({"op": "end", "pid": self.pid})
        return self.usage

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


class Zygote:
    """A zygote process in one Triton mode. Raises InfrastructureError if it does not start.

    ``also`` names modules of tasks that its children are to run, besides the sandbox's own.
    ``outer`` puts it into bubblewrap.
    """

    def __init__(self, mode: Mode, also: Sequence[str] = (), *, outer: bool = False) -> None:
        refuse_windows()
        self.mode = mode
        ours, theirs = socket.socketpair()
        sweep()  # what workers that were killed have left
        self.folder = Folder()
        self._control = ours
        self._reader = ours.makefile("rb")
        command = [*_PYTHON, _START, _ROOT, str(theirs.fileno()), *also, *_IMPORTS[mode]]
        self._process = subprocess.Popen(
            wrapped(command, self.folder.name) if outer else command,
            env=_environment(mode, self.folder.name),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            start_new_session=True,  # no signal to our group: it ends its children when we end
        )
        theirs.close()
        ours.settimeout(120)  # to import everything: the zygote, or on macOS each child
        self._answer()

    def fork(self, task: str, **settings: Any) -> Child:
        """Start a child that runs ``task`` ("module:function"). Raises InfrastructureError."""
        ours, theirs = socket.socketpair()
        nonce = secrets.token_bytes(16)
        request = {"op": "fork", "task": task, "nonce": nonce.hex(), "settings": settings}
        answer = self._request(request, theirs)
        return Child(self, answer["pid"], ours, nonce)

    def close(self) -> None:
        """End the zygote and all its children."""
        self._reader.close()
        self._control.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr:
            self._process.stderr.close()
        self.folder.cleanup()

    def _request(self, request: dict[str, Any], end: socket.socket | None = None) -> dict[str, Any]:
        line = json.dumps(request).encode()
        try:
            if end is None:
                self._control.sendall(line)
            else:
                socket.send_fds(self._control, [line], [end.fileno()])
        except OSError as error:
            raise InfrastructureError(f"The zygote has died: {error}.") from error
        finally:
            if end is not None:
                end.close()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._reader.readline()
        except OSError as error:
            raise InfrastructureError(f"The zygote does not answer: {error}.") from error
        if not line:
            raise InfrastructureError(f"The zygote has died: {self._last_words()}.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        self._process.wait(10)
        text = self._process.stderr.read().decode(errors="replace") if self._process.stderr else ""
        return (text.strip().splitlines() or [f"exit status {self._process.returncode}"])[-1]


class Workshop:
    """The zygotes of one worker, started when first needed and again after they have died.

    ``also`` names modules of tasks besides the sandbox's own (see `task`). ``outer`` puts the
    zygotes into bubblewrap (`bubblewrap.problem` says whether it can be had).
    """

    def __init__(self, *also: str, outer: bool = False) -> None:
        self._also, self.outer = also, outer
        self._zygotes: dict[str, Zygote] = {}

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all zygotes."""
        for zygote in self._zygotes.values():
            with contextlib.suppress(OSError):
                zygote.close()
        self._zygotes.clear()

    def student(self, **limits: int) -> Child:
        """Return a child for a student's function (`sandbox.student.serve`)."""
        return self._fork("interpreter", f"{_STUDENT}:serve", **limits)

    def without_torch(self, **limits: int) -> Child:
        """Return a child for a function that is to be NumPy (`sandbox.without_torch.serve`)."""
        return self._fork("without torch", f"{_WITHOUT_TORCH}:serve", **limits)

    def interpreter(self, **limits: int) -> Child:
        """Return a child that runs kernels and nothing else (`sandbox.interpreter.serve`)."""
        return self._fork("interpreter", f"{_INTERPRETER}:serve", **limits)

    @contextlib.contextmanager
    def compiler(self, **limits: int) -> Iterator[Child]:
        """Give a child that compiles kernels for a GPU, with a fresh folder of its own."""
        folder = self._zygote("compile").folder.name
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            task = f"{_COMPILER}:serve"
            with self._fork("compile", task, folder=fresh, **limits) as child:
                yield child

    def task(self, task: str, **limits: int) -> Child:
        """Return a confined child that runs any task of the course, "module:function"."""
        return self._fork("interpreter", task, **limits)

    @cached_property
    def level(self) -> Level:
        """What this machine's sandbox holds back, found out by trying it."""
        return probe(self)[0]

    def _fork(self, mode: Mode, task: str, **settings: Any) -> Child:
        zygote = self._zygote(mode)
        try:
            return zygote.fork(task, **settings)
        except InfrastructureError:  # it died between two requests: once more, with a new one
            self._zygotes.pop(mode).close()
            return self._zygote(mode).fork(task, **settings)

    def _zygote(self, mode: Mode) -> Zygote:
        if mode not in self._zygotes:
            also = () if mode == "without torch" else self._also
            self._zygotes[mode] = Zygote(mode, also, outer=self.outer)
        return self._zygotes[mode]


def probe(workshop: Workshop) -> tuple[Level, dict[str, bool]]:
    """Try in a child what must be impossible; return the level and what was held back."""
    with workshop.student() as child:
        closed = [str(file) for file in closed_files()]
        request = {"do": "probe", "victim": os.getpid(), "closed": closed}
        held = child.ask(request, time.monotonic() + 60)
    if all(held.values()):
        return "full in bubblewrap" if workshop.outer else "full", held
    return ("limits-only" if held.get("memory") and held.get("disk") else "none"), held


def _environment(mode: Mode, folder: str) -> dict[str, str]:
    """Return the whole environment of a zygote: nothing of ours is inherited."""
    threads = ("OMP", "OPENBLAS", "MKL", "NUMEXPR")
    return {
        **{f"{library}_NUM_THREADS": "1" for library in threads},
        "TRITON_INTERPRET": "1" if mode == "interpreter" else "0",
        "TRITON_CACHE_DIR": f"{folder}/triton",
        "CUDA_VISIBLE_DEVICES": "",
        "HOME": folder,
        "LANG": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "TMPDIR": folder,
    }
