"""Inside the sandbox, the student's side: load a program, call its function, send back the result.

There is nothing here worth stealing: no expected values, no seed, no tolerance. Kernels are not
run here either: a launch becomes a message, the parent carries it to a child of its own
(`sandbox.interpreter`), and what that one wrote comes back. So neither results nor traffic of a
kernel can be made up here.
"""

from __future__ import annotations

import contextlib
import inspect
import linecache
import operator
import os
import sys
import types
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from course_lib.child.codec import BadFrame
from course_lib.child.student_error import Failure
from course_lib.sandbox import allowed
from course_lib.sandbox import kernel_source as kernels
from course_lib.sandbox.calling import call, compact
from course_lib.sandbox.channel import Channel
from course_lib.sandbox.profile import Limits, confine_computing


def warm_up() -> None:
    """In the zygote: import what students and the code here need, so that children have it."""
    import course_lib.accounting.eager_ledger
    import course_lib.accounting.memory
    import course_lib.child.extract

    with contextlib.suppress(ImportError):
        import IPython.core.inputtransformer2  # noqa: F401
    import course_lib

    for name in (
        "check",
        "hint",
        "progress",
        "Predict",
        "Quiz",
    ):  # cells that call them load, and hear nothing
        setattr(course_lib, name, _nothing)
    _use_torch_once()
    if answers := allowed.loaded_answers():
        raise RuntimeError(f"the zygote has imported answers: {', '.join(answers)}")


def _use_torch_once() -> None:
    """Let torch look at the processor now: in the sandbox it could not read /proc."""
    import torch

    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        x = torch.ones(1, 1, 64, 64).to(dtype)
        torch.nn.functional.scaled_dot_product_attention(x, x, x).float().to(dtype)
        torch.softmax(x @ x, -1).exp().sum().item()


def serve(channel: Channel, settings: dict[str, Any]) -> None:
    """Confine this process, then obey the parent until it closes the channel."""
    confine_computing(Limits(**settings))
    obey(channel)


def obey(channel: Channel) -> None:
    """In a confined process: do what the parent asks until it closes the channel."""
    student = _Student(channel)
    while True:
        request = channel.receive()
        try:
            channel.send(getattr(student, f"do_{request.pop('do')}")(**request))
        except (BadFrame, MemoryError, RecursionError) as error:  # nothing of it has been sent
            says = "your result is too large, or nested too deeply, to be looked at."
            failure = Failure((type(error).__name__,), says)
            channel.send({"error": asdict(failure)})


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Stand in for ``check``, ``hint`` and ``progress``: nobody is told anything in here."""


class _Student:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.function: Callable[..., Any] | None = None
        self.name = ""
        self.run: Callable[..., Any] | None = None
        self.earlier: list[Any] = []

    def do_load(self, program: str, slug: str, function: str, run: str | None) -> dict[str, Any]:
        """Execute the student's program; find the function."""
        self.name = function
        _intercept_launches(self.channel)
        try:
            module = _execute(program, slug.replace("-", "_"))
        except BaseException as error:
            failure = Failure.of(error, None)
            return {
                "error": asdict(failure) | {"text": f"{failure.text} (while its cells were loaded)"}
            }
        self.function = getattr(module, function, None)
        if run is not None:
            self.run = _execute(run, "course_run").run
        return {"found": callable(self.function)}

    def do_case(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        counted: bool,
        kernel: bool,
        rewritten: bool = False,
    ) -> dict[str, Any]:
        """Call the function on one input and describe what came of it."""
        assert self.function is not None
        called = call(
            self.function,
            args,
            kwargs,
            counted=counted,
            kernel=kernel,
            run=self.run,
            ask=self._ask,
            earlier=self.earlier,
            rewritten=rewritten,
        )
        if called.failure:
            return {"error": asdict(called.failure)}
        ledger = called.ledger
        return {
            "result": compact(called.result),
            "ledger": ledger.to_plain() if hasattr(ledger, "to_plain") else ledger,
            "allocated": called.allocated,
            "tampering": called.tampering,
        }

    def _ask(self, first: Any) -> Any:
        """Hand over a first answer; return the inputs that come after it."""
        self.channel.send({"first": compact(first)})
        return self.channel.receive()["later"]

    def do_probe(self, victim: int, closed: list[str]) -> dict[str, bool]:
        """Try what must be impossible; True where it was refused. ``closed``: files of answers."""
        held = {name: _is_refused(attempt, victim) for name, attempt in _ATTEMPTS.items()}
        answers = (_is_refused(_read, Path(file)) for file in closed)
        return held | {"answers": bool(closed) and all(answers)}


def _execute(text: str, name: str) -> types.ModuleType:
    """Run ``text`` as a module whose source ``inspect`` can read, though no file holds it."""
    module, file = types.ModuleType(name), f"/submission/{name}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module.__file__ = file
    sys.modules[name] = module
    exec(compile(text, file, "exec"), vars(module))
    return module


# Launches ---------------------------------------------------------------------------------------


def _intercept_launches(channel: Channel) -> None:
    """From now on ``kernel[grid](...)`` is done by the interpreter, at the parent's other hand."""
    if "triton" not in sys.modules:  # the zygote found none
        return
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import InterpretedFunction

    from course_lib.accounting.autotune import first_config
    from course_lib.accounting.eager_ledger import paused

    interpret = InterpretedFunction.run

    def run(kernel: Any, /, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        if warmup:
            return
        with paused():
            try:
                source = kernels.gather(kernel)
            except ValueError:  # an undefined name, most often: let it say so as in a notebook
                interpret(kernel, *args, grid=grid, warmup=False, **kwargs)
                raise
            _launch(channel, kernel, source, args, grid, kwargs)

    InterpretedFunction.run = run
    Autotuner.run = first_config(Autotuner.run)


def _launch(
    channel: Channel,
    kernel: Any,
    gathered: tuple[str, str],
    args: tuple[Any, ...],
    grid: Any,
    kwargs: dict[str, Any],
) -> None:
    from course_lib.accounting.launch_arguments import tensors_in, to_plain
    from course_lib.accounting.pointer_tables import with_targets

    source, name = gathered
    known = {key: value for key, value in kwargs.items() if key in kernel.arg_names}
    bound = inspect.getcallargs(kernel.fn, *args, **known)
    sizes = grid(bound) if callable(grid) else grid
    bound = {key: with_targets(value) for key, value in bound.items()}
    sizes = tuple(sizes) if isinstance(sizes, tuple | list) else (sizes,)
    request = {
        "source": source,
        "name": name,
        "grid": [operator.index(n) for n in sizes],  # as Triton: 4.0 is no number of programs
        "args": {key: to_plain(value) for key, value in bound.items()},
        "options": {k: v for k, v in kwargs.items() if k not in known and isinstance(v, int)},
    }
    channel.send({"launch": request})
    answer = channel.receive()
    tensors = dict(part for key, value in bound.items() for part in tensors_in(key, value))
    for key, written in answer["written"].items():
        tensors[key].copy_(written)


# The probe --------------------------------------------------------------------------------------


def _is_refused(attempt: Callable[[Any], Any], target: Any) -> bool:
    try:
        attempt(target)
    except (OSError, MemoryError, RuntimeError):
        return True
    return False


def _read(file: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # nothing is held back: there is nothing
        file.read_bytes()


def _try_fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _try_thread() -> None:
    import threading

    threading.Thread(target=int).start()


def _try_socket(family: str) -> None:
    import socket

    socket.socket(getattr(socket, family), socket.SOCK_DGRAM)


def _try_disk() -> None:
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(b"0" * (80 << 20))
        file.flush()


def _try_signal_by_file(owner: int) -> None:
    """Ask for signals to another process when a file is ready, in each of the ways there are."""
    import fcntl

    with open(os.devnull) as file:
        for command, value in (
            ("F_SETOWN", owner),
            ("F_SETSIG", 10),
            ("F_SETFL", os.O_ASYNC),
            ("F_SETLEASE", fcntl.F_RDLCK),
        ):
            with contextlib.suppress(OSError, AttributeError):  # macOS lacks some
                fcntl.fcntl(file, getattr(fcntl, command), value)
                return
    raise PermissionError


_ATTEMPTS: dict[str, Callable[[int], Any]] = {
    "memory": lambda _: bytearray(8 << 30),
    "disk": lambda _: _try_disk(),
    "environment": lambda _: Path("/proc/self/environ").read_bytes(),
    "folders": lambda _: os.listdir("/"),
    "exec": lambda _: os.posix_spawn("/bin/true", ["true"], {}),
    "fork": lambda _: _try_fork(),
    "thread": lambda _: _try_thread(),
    "signal": lambda victim: os.kill(victim, 0),
    "signal by file": _try_signal_by_file,
    "udp": lambda _: _try_socket("AF_INET"),
    "unix socket": lambda _: _try_socket("AF_UNIX"),
}
