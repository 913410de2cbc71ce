"""The zygote: a process that has imported everything, holds no secret, and alone may fork.

It is started by exec, with one thread and a scrubbed environment, because a process that forks
after torch has started threads hangs. For every request it forks one child, which confines itself
before it runs a task. When a child is to end, the zygote kills it and whatever it left behind: as
*subreaper* it inherits even processes that left their session.

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
import time
from pathlib import Path
from typing import Any

_SUBREAPER = 36
_CHANNEL = 3  # the only descriptor of a child beside 0, 1, 2


def main(descriptor: int, modules: list[str]) -> None:
    """Import ``modules``, then serve requests on the socket until it closes."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    for name in modules:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            getattr(module, "warm_up", lambda: None)()
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
            answer = _serve(json.loads(line), descriptors, alive)
            control.sendall(json.dumps(answer).encode() + b"\n")
    finally:
        for pid in list(alive):
            _end(pid, alive)


def _serve(request: dict[str, Any], descriptors: list[int], alive: set[int]) -> dict[str, Any]:
    if request["op"] == "end":
        return _end(request["pid"], alive)
    pid = os.fork()
    if pid == 0:
        try:
            _become(request, descriptors[0])
        finally:
            os._exit(70)
    os.close(descriptors[0])
    alive.add(pid)
    return {"pid": pid}


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
    _sweep(alive)
    return {
        "status": os.waitstatus_to_exitcode(status) if by_itself else None,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }


def _sweep(alive: set[int]) -> None:
    """Kill processes whose parent has died: the kernel has made them children of the zygote."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    for _ in range(50):
        try:
            orphans = {int(pid) for pid in children.read_text().split()} - alive
        except OSError:
            return
        if not orphans:
            return
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        time.sleep(0.01)
