"""course watch: a real file, saved in all the ways in which editors save."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

RIGHT = "def echo(x):\n    return x.copy()\n"
WRONG = "def echo(x):\n    return x\n"


class Watched:
    """A running `course watch` on a file, whose lines are waited for."""

    def __init__(self, file: Path) -> None:
        command = [sys.executable, "-u", "-m", "course_lib.cli", "watch", str(file)]
        self.file = file
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Tests that a shell runs in the background ignore Ctrl-C, and so would this.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)

    def says(self, words: str) -> None:
        """Wait until a line has these words."""
        seen, end = [], time.monotonic() + 60
        while time.monotonic() < end:
            try:
                seen.append(self.lines.get(timeout=1))
            except queue.Empty:
                continue
            if words in seen[-1]:
                return
        pytest.fail(f"{words!r} was not said: {seen}")

    def saved(self, text: str) -> None:
        self.file.write_text(text)


@pytest.fixture
def watched(tmp_path) -> Iterator[Watched]:
    file = tmp_path / "mine.py"
    file.write_text(WRONG)
    running = Watched(file)
    yield running
    running.process.kill()
    running.process.wait()


def test_every_save_is_checked_and_none_ends_it(watched):
    watched.says("0.1 echo: incorrect")
    watched.saved(RIGHT)
    watched.says("0.1 echo: passed")
    watched.saved("def echo(x)\n    return x\n")
    watched.says("SyntaxError")
    watched.file.unlink()
    time.sleep(0.6)
    watched.saved(RIGHT + "\n\nOTHER = 1\n")
    watched.says("0.1")
    other = watched.file.with_suffix(".tmp")
    other.write_text(WRONG)
    other.replace(watched.file)  # as many editors save
    watched.says("0.1 echo: incorrect")
    watched.process.send_signal(signal.SIGINT)
    assert watched.process.wait(20) == 130


def test_a_save_during_a_check_ends_the_check(watched):
    watched.says("0.1 echo: incorrect")
    watched.saved("import time\n\n\ndef echo(x):\n    time.sleep(3600)\n")
    watched.says("mine.py: 0.1")
    watched.saved(RIGHT)
    watched.says("0.1 echo: passed")
