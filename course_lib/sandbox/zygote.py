"""The zygote: a process that has imported everything, holds no secret, and alone may fork.

It is started by exec, with one thread and a scrubbed environment, because a process that forks
after torch has started threads hangs. For every request it forks one child, which confines itself
before it runs a task. (On macOS the system's own libraries start threads: there it imports
nothing, and a child is a fresh Python that imports everything.) When a child is to end, the zygote
kills it and whatever it left behind: as *subreaper* it inherits even processes that left their
session.

A request is one line of JSON, with the child's socket attached to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

_SUBREAPER = 36
_CHANNEL = 3  # the only descriptor of a child beside 0, 1, 2
_ON_MACOS = sys.platform == "darwin"
_FRESH = (
    "import sys; sys.path.append(sys.argv[1]); from course_lib.sandbox import zygote; "
    "zygote.fresh(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:])"
)


def main(descriptor: int, modules: list[str]) -> None:
    """Import ``modules``, then serve requests on the socket until it closes."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    if not _ON_MACOS:
        _import(modules)
        gc.collect()
        gc.freeze()  # children share these pages
    control = socket.socket(fileno=descriptor)
    control.sendall(b'{"ready": true}\n')
    alive: set[int] = set()
    try:
        while True:
            line, descriptors, *_ = socket.recv_fds(control, 1 << 16, 1)
            if not line:
                break
            answer = _serve(json.loads(line), descriptors, alive, modules)
            control.sendall(json.dumps(answer).encode() + b"\n")
    finally:
        for pid in list(alive):
            _end(pid, alive)


def _import(modules: list[str]) -> None:
    for name in modules:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            getattr(module, "warm_up", lambda: None)()


def _serve(
    request: dict[str, Any], descriptors: list[int], alive: set[int], modules: list[str]
) -> dict[str, Any]:
    if request["op"] == "end":
        return _end(request["pid"], alive)
    pid = _spawn(request, descriptors[0], modules) if _ON_MACOS else os.fork()
    if pid == 0:
        _run(request, descriptors[0])
    os.close(descriptors[0])
    alive.add(pid)
    return {"pid": pid}


def _spawn(request: dict[str, Any], descriptor: int, modules: list[str]) -> int:
    """Start a child that is no fork, wait until it is as ready as one, return its number."""
    ready, theirs = os.pipe()
    for inherited in (descriptor, theirs):
        os.set_inheritable(inherited, True)
    numbers = [str(descriptor), str(theirs)]
    command = [sys.executable, "-I", "-c", _FRESH, str(Path(__file__).parents[2]), *numbers]
    pid = os.posix_spawn(sys.executable, [*command, json.dumps(request), *modules], os.environ)
    os.close(theirs)
    os.read(ready, 1)  # nothing: the child, or its end, has closed the other end
    os.close(ready)
    return pid


def fresh(descriptor: int, ready: int, request: str, modules: list[str]) -> None:
    """In a child that is no fork: import what a fork would have, then be a child."""
    _import(modules)
    os.close(ready)
    _run(json.loads(request), descriptor)


def _run(request: dict[str, Any], descriptor: int) -> None:
    """In the child: never return."""
    try:
        _become(request, descriptor)
    finally:
        os._exit(70)


def _become(request: dict[str, Any], descriptor: int) -> None:
    """In the child: keep one socket, lose everything else, run the task."""
    from course_lib.sandbox.channel import Channel

    os.setsid()
    nothing = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    kept = os.dup(descriptor) if descriptor == _CHANNEL else descriptor
    os.dup2(kept, _CHANNEL)
    os.closerange(_CHANNEL + 1, 1 << 16)
    os.chdir("/")
    channel = Channel(_CHANNEL, bytes.fromhex(request["nonce"]))
    module, _, function = request["task"].partition(":")
    getattr(importlib.import_module(module), function)(channel, request["settings"])
    os._exit(0)


def _end(pid: int, alive: set[int]) -> dict[str, Any]:
    """Kill a child, its session and every orphan; return how it ended and what it used."""
    if pid not in alive:
        return {"status": None, "cpu_seconds": 0.0, "peak_bytes": 0}
    ended, status, usage = os.wait4(pid, os.WNOHANG)
    by_itself = ended == pid
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if not by_itself:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
    alive.discard(pid)
    return {
        "status": os.waitstatus_to_exitcode(status) if by_itself else None,
        "cpu_seconds": usage.ru_utime + usage.ru_stime + _sweep(alive),
        "peak_bytes": usage.ru_maxrss * (1 if _ON_MACOS else 1024),  # it counts bytes, Linux KiB
    }


def _sweep(alive: set[int]) -> float:
    """Kill processes whose parent has died: the kernel has made them children of the zygote.

    Return the CPU seconds that they used: an assembler's, say, which was killed with its parent.
    """
    children, used = Path(f"/proc/self/task/{os.getpid()}/children"), 0.0
    for _ in range(50):
        try:
            orphans = {int(pid) for pid in children.read_text().split()} - alive
        except OSError:
            break
        if not orphans:
            break
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                usage = os.wait4(pid, 0)[2]
                used += usage.ru_utime + usage.ru_stime
        time.sleep(0.01)
    return used
