"""The notebook's side: a child process that measures one method, asked in lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from course_lib.demo.peak import ITEMSIZE, Peak, predicted_bytes


class Worker:
    """A child that measures one method: a JSON line in, a JSON line out."""

    def __init__(self, method: str) -> None:
        self.method = method

    def __enter__(self) -> Worker:
        # A file, since a pipe that nobody reads would fill up; closed on exit.
        self.complaints = tempfile.TemporaryFile("w+")
        # A fixed threshold: large blocks go back to the system at once, so peaks do not blur.
        environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
        package = str(Path(__file__).resolve().parents[2])
        inherited = os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, inherited]))
        self.process = subprocess.Popen(
            # -P: no file beside the notebook stands in for the standard library's
            [sys.executable, "-P", "-m", "course_lib.demo.measure", self.method],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            text=True,
            env=environment,
        )
        return self

    def __exit__(self, *error: Any) -> None:
        self.process.kill()
        self.process.communicate()
        self.complaints.close()

    def measure(self, asked: dict[str, Any]) -> Peak:
        """Return the peak of one call; a child that the system ended is a record too."""
        try:
            return Peak(method=self.method, n=asked["n"], **self.ask(asked))
        except _Killed:  # by the system: start again for the next length
            self.__exit__()
            self.__enter__()
            size = ITEMSIZE[asked["dtype"]]
            need = predicted_bytes(self.method, asked["n"], asked["heads"], asked["head_dim"], size)
            says = "the system ended the process"
            return Peak(self.method, asked["n"], need, out_of_memory=says)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the child's answer. Raises RuntimeError with the reason if it has none."""
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(question), file=self.process.stdin, flush=True)
        assert self.process.stdout is not None
        if line := self.process.stdout.readline():
            answer = json.loads(line)
            if "failed" in answer:
                raise RuntimeError(f"{self.method} attention failed: {answer['failed']}")
            return answer
        self.process.communicate()
        if self.process.returncode == -getattr(signal, "SIGKILL", 9):
            raise _Killed
        self.complaints.seek(0)
        last = self.complaints.read().strip().splitlines()[-1:] or ["it ended without a word"]
        raise RuntimeError(f"the process that runs {self.method} attention ended: {last[0]}")


class _Killed(Exception):
    """The child was killed from outside: on Linux, by the kernel when memory ran out."""
