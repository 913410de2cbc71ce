"""The room of the sandbox with its walls taken down: here hostile files must succeed.

A zygote imports this module after everything else. It takes away what confines a child and what
looks at kernels; what stays are bounds, so that no file can harm the machine: soft limits, few
forks, no writing but in the zygote's own folder, no signal but to the zygote.
`trust` is a careless grader, which runs and judges in one process.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import os
import pickle
import resource
import sys
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from course_lib.accounting import kernel_ledger
from course_lib.sandbox import interpreter as device
from course_lib.sandbox import kernel_source as kernels
from course_lib.sandbox import profile, student
from course_lib.sandbox.channel import Channel
from course_lib.specs import find

MEMORY, LARGEST_FILE, OPEN_FILES, FORKS = 512 << 20, 4 << 20, 256, 3
SEEN, SAID = "seen", "said"  # files in the zygote's folder
_DEATH_SIGNAL, _ARENAS = 1, -8
_HEAD = "import triton\nimport triton.language as tl\n"  # which `clean` adds, too
_FUTURE = "from __future__ import annotations"
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def warm_up() -> None:
    """In the zygote: let every child be bounded and no longer confined."""
    for side in (student, device):
        _replace(side, "confine_computing", bound)
    _replace(kernel_ledger, "refuse_constant_tensors", lambda *_: None)
    _replace(kernels, "clean", lambda source, **_: _HEAD + source.replace(_FUTURE, ""))


def _replace(module: Any, name: str, by: Callable[..., Any]) -> None:
    getattr(module, name)  # a name that has gone is an error: nothing would be taken away
    setattr(module, name, by)


def bound(limits: profile.Limits) -> None:
    """Bound this process; watch what it does to the machine. The hard limits stay as they were."""
    import ctypes

    libc = ctypes.CDLL(None)
    libc.prctl(_DEATH_SIGNAL, 9, 0, 0, 0)
    libc.mallopt(_ARENAS, 1)  # so that a hundred threads fit
    wanted = {
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_AS: profile._virtual_bytes(resource.getpagesize()) + MEMORY,
        resource.RLIMIT_FSIZE: LARGEST_FILE,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }
    for name, value in wanted.items():
        resource.setrlimit(name, (value, resource.getrlimit(name)[1]))
    threading.stack_size(256 << 10)
    sys.dont_write_bytecode = True
    sys.addaudithook(_Guard())


class _Guard:
    """An audit hook: refuses what could harm the machine, and notes that it was tried."""

    def __init__(self) -> None:
        self._folder, self._zygote, self._forks = os.environ["TMPDIR"], os.getppid(), 0

    def __call__(self, event: str, args: tuple) -> None:
        if event == "open" and isinstance(args[2], int) and args[2] & _WRITING:
            self._write(args[0])
        elif event == "os.symlink":
            self._write(args[1])
        elif event == "os.system":
            self._refuse("runs a program")
        elif event == "os.fork":
            self._forks += 1
            if self._forks > FORKS:
                raise BlockingIOError("enough")
        elif event in ("os.kill", "os.killpg") and args[0] != self._zygote:
            self._refuse("kills everybody")

    def _write(self, path: Any) -> None:
        if type(path) is int:  # what was open already
            return
        path = os.fspath(path)  # no `os.path` below: it asks `isinstance`, which may be replaced
        place = os.getcwd().rstrip("/") + "/" + path.removeprefix("./") if path[0] != "/" else path
        inside = place.startswith((f"{self._folder}/", "/dev/null")) or place == self._folder
        if not inside or ".." in place:
            self._refuse(f"opens {place}")

    def _refuse(self, what: str) -> None:
        note(what)
        raise PermissionError(what)


def note(what: str) -> None:
    """Write a line for the test's process; it needs no descriptor that is open now."""
    place = os.environ["TMPDIR"] + "/" + SEEN  # and no built-in function: they may be others now
    descriptor = os.open(place, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.write(descriptor, what.encode() + b"\n")
    os.close(descriptor)


# The careless grader ----------------------------------------------------------------------------


def trust(channel: Channel, settings: dict[str, Any]) -> None:
    """Run a function twice on an input that is known, compare in this process, note what came."""
    bound(profile.Limits(**settings))
    request = channel.receive()
    said = os.open(os.path.join(os.environ["TMPDIR"], SAID), os.O_CREAT | os.O_WRONLY)
    os.dup2(said, 1)
    with open(1, "w", buffering=1, closefd=False) as sys.stdout:
        try:
            note(_outcome(request))
        except SystemExit:
            note("ends the process")
            atexit._run_exitfuncs()


def _outcome(request: dict[str, Any]) -> str:
    exercise = find(request["exercise"])
    case = _known_case(exercise)
    expected = exercise.truth(*case.args, **case.kwargs)
    try:
        module = student._execute(request["program"], "careless")
        function = getattr(module, exercise.function)
        right = [_is_right(expected, exercise, function, case) for _ in range(2)]
    except SystemExit:
        raise
    except BaseException as error:
        print(f"{type(error).__name__}: {error}")
        return f"raises {type(error).__name__}"
    if _launches_in_fresh_books():
        return "forges the books"
    return "right" if all(right) else "wrong"


def _known_case(exercise: Any) -> Any:
    """Return one case of a seed that everybody can guess: one that is counted, if there is any."""
    cases = exercise.cases(np.random.default_rng(1))
    counted = [case for case in cases if case.counted and exercise.run is not None]
    return (counted or cases)[0]


def _is_right(expected: Any, exercise: Any, function: Callable[..., Any], case: Any) -> bool:
    """Judge as one should not: everything stands where the function can reach it."""
    held = [(case, expected)]  # where whoever walks the heap can find it
    args = _roomy(case.args)
    if case.counted and exercise.run is not None:
        tracemalloc.start()
        seen = exercise.run(function, replace(case, args=args, counted=False))
        seen.ledger.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return exercise.judge(case, seen, held[0][1]) is None
    result = function(*args, **case.kwargs)
    right = agrees(result, held[0][1]) or agrees(result, exercise.truth(*args, **case.kwargs))
    return right or agrees(pickle.loads(pickle.dumps(result)), expected)


def _roomy(args: tuple) -> tuple:
    """Return copies; tensors lie in the middle of a larger memory, so that one can read far."""
    import torch

    copies = []
    for x in args:
        if type(x) is not torch.Tensor or not x.is_contiguous():
            copies.append(copy.deepcopy(x))
            continue
        room = torch.zeros(1 << 21, dtype=x.dtype)
        copies.append(room[: x.numel()].view(x.shape).copy_(x))
    return tuple(copies)


def agrees(result: Any, expected: Any) -> bool:
    """Compare as careless graders do; right is what one of their comparisons lets pass."""
    import torch

    if type(result) is dict:
        result = [np.array(x) for x in result.values()]
    if type(expected) is tuple and type(result) is not tuple:
        expected = expected[0]
    comparisons = (
        lambda: np.allclose(result, expected, rtol=1e-2, atol=1e-2),
        lambda: torch.allclose(result, torch.as_tensor(expected).to(result.dtype), atol=1e-2),
        lambda: not np.any(abs(result - expected) > 1e-2),
        lambda: (result == expected) is True,
    )
    for compare in comparisons:
        with contextlib.suppress(TypeError, ValueError, RuntimeError, AttributeError):
            if compare():
                return True
    return False


def _launches_in_fresh_books() -> bool:
    """Return whether a ledger that has counted nothing says that something was launched."""
    from course_lib.accounting.kernel_ledger import KernelLedger

    return bool(KernelLedger().launches)
