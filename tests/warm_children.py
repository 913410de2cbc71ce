"""Tests only: the children of `course_lib.child`, forked by a process that has torch imported.

A child of a check spends two seconds of processor time on importing torch and Triton and a tenth
of that on its task. Here a server imports them once for each Triton mode, and every child is a
fork of it: its own session, environment, standard streams and exit status, like the child that
`process._start` starts. What tests/child says about children is said of real ones.

Started as a program (``python warm_children.py SOCKET``), this file is the server.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from functools import partial
from pathlib import Path

IMPORTS = {
    "0": ("torch", "triton.compiler", "triton.backends.nvidia.compiler", "triton.runtime.jit"),
    "1": ("torch", "triton.language", "triton.runtime.interpreter"),
    "": ("course_lib.child.process", "course_lib.child.compile_check", "course_lib.child.xray"),
}


class WarmChildren:
    """The servers of one test run, by Triton mode; each starts when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._servers: dict[str, subprocess.Popen] = {}

    def start(self, folder: Path, environment: dict[str, str], timeout: float):
        """Run the task in ``folder`` as `process._start` does: (exit status or None, stderr)."""
        self.serve(environment["TRITON_INTERPRET"])
        return start(self.folder, folder, environment, timeout)

    def serve(self, *modes: str) -> None:
        """Have the servers for these modes ready."""
        for mode in set(modes) - set(self._servers):
            place = _place(self.folder, mode)
            self._servers[mode] = subprocess.Popen(
                [sys.executable, __file__, str(place)],
                env={**os.environ, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": mode},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
            )
            assert self._servers[mode].stdout.readline() == b"ready\n"

    def of_a_kernel(self, ipython: Path) -> None:
        """Let the kernels with these settings (IPYTHONDIR) have such children too."""
        self.serve("0", "1")
        startup = ipython / "profile_default" / "startup" / "children.py"
        startup.parent.mkdir(parents=True)
        startup.write_text(
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            f"import warm_children; warm_children.use({str(self.folder)!r})\n"
            "del sys.path[0], warm_children, sys\n"
        )

    def close(self) -> None:
        """End the servers."""
        for server in self._servers.values():
            server.terminate()
            server.wait()
            server.stdout.close()


def use(servers: str) -> None:
    """Let the children of this process be forked by running servers."""
    from course_lib.child import process

    process._start = partial(start, Path(servers))


def start(servers: Path, folder: Path, environment: dict[str, str], timeout: float):
    """Ask a server for a child, and wait for it."""
    request = [str(folder), os.getcwd(), environment, timeout]
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(str(_place(servers, environment["TRITON_INTERPRET"])))
        server.sendall(json.dumps(request).encode() + b"\n")
        answer = server.makefile().readline()
    stderr = (folder / "stderr.txt").read_text(encoding="utf-8", errors="replace")
    return json.loads(answer), stderr


def _place(servers: Path, mode: str) -> Path:
    return servers / f"children-{mode}"


# In the server ---------------------------------------------------------------------------------


def serve(place: str) -> None:
    """Import everything, then keep one child for each connection."""
    for name in IMPORTS[os.environ["TRITON_INTERPRET"]] + IMPORTS[""]:
        importlib.import_module(name)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen(8)
        print("ready", flush=True)
        while True:
            connection, _ = door.accept()
            with contextlib.suppress(ChildProcessError):  # keepers that have ended
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if os.fork() == 0:
                door.close()
                with contextlib.suppress(BrokenPipeError), connection:
                    keep(connection)
                os._exit(0)
            connection.close()


def keep(connection: socket.socket) -> None:
    """Fork the child, wait for it as long as it may take, end its group, say how it ended."""
    folder, here, environment, timeout = json.loads(connection.makefile().readline())
    pid = os.fork()
    if pid == 0:
        connection.close()
        become(Path(folder), here, environment)
    watch = os.pidfd_open(pid)
    in_time, *_ = select.select([watch], [], [], timeout)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    answer = os.waitstatus_to_exitcode(status) if in_time else None
    connection.sendall(json.dumps(answer).encode() + b"\n")


def become(folder: Path, here: str, environment: dict[str, str]) -> None:
    """In the child: what a fresh ``python -m course_lib.child.process FOLDER`` would be."""
    status = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        stderr = os.open(folder / "stderr.txt", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        for stream, kept in enumerate((nothing, nothing, stderr)):
            os.dup2(kept, stream)
        os.chdir(here)
        os.environ.clear()
        os.environ.update(environment)
        paths = environment.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = [here, *paths, *(path for path in sys.path[1:] if path not in paths)]
        sys.modules["course_lib.child.process"]._main(folder)
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    serve(sys.argv[1])
