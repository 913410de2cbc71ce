"""Tests only: the kernels of notebooks, forked by a process that has their libraries imported.

A kernel spends three seconds of processor time on importing IPython, torch, Triton and matplotlib.
Here a server imports them once, and each kernel is a fork of it with the session, environment,
folder and streams of the kernel that Jupyter asked for. The course is imported by each anew.

As a program: ``warm_kernels.py serve DOOR`` is the server, ``warm_kernels.py DOOR -f FILE`` what
Jupyter starts as a kernel: it lives as long as the fork does, and the fork as long as it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from pathlib import Path

LIBRARIES = (
    "ipykernel.kernelapp", "ipykernel.ipkernel", "ipywidgets", "anywidget", "matplotlib.figure",
    "matplotlib_inline.backend_inline", "numpy", "torch", "triton.language",
    "triton.runtime.interpreter",
)  # fmt: skip
BACKEND = "module://matplotlib_inline.backend_inline"  # a kernel sets it before matplotlib reads it


class WarmKernels:
    """The server of one test run, and the kernelspec ``python3`` that asks it."""

    def __init__(self, folder: Path) -> None:
        self.jupyter_path = folder / "jupyter"
        door = folder / "kernels"
        spec = self.jupyter_path / "kernels" / "python3"
        spec.mkdir(parents=True)
        ask = [sys.executable, "-S", __file__, str(door), "-f", "{connection_file}"]
        named = {"argv": ask, "display_name": "Python 3", "language": "python"}
        (spec / "kernel.json").write_text(json.dumps(named))
        self._server = subprocess.Popen(
            [sys.executable, "-P", __file__, "serve", str(door)],
            env={**os.environ, "MPLBACKEND": BACKEND, "TRITON_INTERPRET": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout.readline() == b"ready\n"

    def close(self) -> None:
        """End the server."""
        self._server.terminate()
        self._server.wait()
        self._server.stdout.close()


def ask(door: str, *arguments: str) -> int:
    """Ask for a kernel, wait for its end, and return its exit status."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(door)
        request = json.dumps([arguments, os.getcwd(), dict(os.environ)])
        socket.send_fds(server, [b"."], [0, 1, 2])
        server.sendall(request.encode() + b"\n")
        return int(server.makefile().readline() or 1)


def serve(door: str) -> None:
    """Import everything, then keep one kernel for each connection."""
    import importlib

    for name in LIBRARIES:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(door)
        listening.listen(8)
        print("ready", flush=True)
        while True:
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                keep(connection)
                os._exit(0)
            connection.close()


def keep(connection: socket.socket) -> None:
    """Fork the kernel; say how it ended, or end it when nobody waits for it any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, *_ = socket.recv_fds(connection, 1, 3)
    request = json.loads(connection.makefile().readline())
    pid = os.fork()
    if pid == 0:
        connection.close()
        become(streams, *request)
    watch = os.pidfd_open(pid)
    ended, *_ = select.select([watch, connection], [], [])
    if watch not in ended:
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if watch in ended:
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def become(streams: list[int], arguments: list[str], here: str, environment: dict) -> None:
    """In the fork: what ``python -m ipykernel_launcher ARGUMENTS`` would be."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(here)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv[:] = ["ipykernel_launcher", *arguments]
    faulthandler.enable(sys.__stderr__)  # a kernel that crashes says where
    status = 1
    try:
        sys.modules["ipykernel.kernelapp"].launch_new_instance()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(ask(*sys.argv[1:]))
