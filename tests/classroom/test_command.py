"""``course grade``: sentences for what is wrong, and one secret a folder."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from sandbox.test_hostile import lives, processes

from course_lib import cli
from course_lib.classroom import batch, command
from course_lib.classroom.record import Records, record
from course_lib.specs import find

ECHO = "def echo(x):\n    return x.copy()\n"


def test_the_command_says_what_is_wrong_in_a_sentence(tmp_path, capsys, monkeypatch):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "a.py").write_text(ECHO)
    (tmp_path / "short").write_text("x")
    place, out = str(tmp_path / "class"), str(tmp_path / "out")
    for arguments in (
        [str(tmp_path / "missing"), "--out", out],
        [place, "--out", out, "--jobs", "0"],
        [place, "--out", out, "--seed-file", str(tmp_path / "short")],
        [place, "--out", out, "--seed-file", str(tmp_path / "absent")],
    ):
        assert cli.main(["grade", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device", out)

    monkeypatch.setattr(command, "grade_class", full)
    assert cli.main(["grade", place, "--out", out]) == 2
    assert "No space left" in capsys.readouterr().err


def test_another_secret_needs_another_out(tmp_path, monkeypatch):
    """Inputs are drawn from the secret: records of two secrets do not belong to one class."""
    monkeypatch.setattr(command, "grade_class", lambda *_args, **_kwargs: batch.Tally())
    place, out = tmp_path / "class", tmp_path / "out"
    place.mkdir()
    (place / "ada.py").write_text(ECHO)
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"secret number {name}")
    command.run(place, out, seed_file=tmp_path / "one")
    command.run(place, out, seed_file=tmp_path / "two")  # nothing was graded yet
    Records(out / "records.jsonl").append([record("ada", "c", find("0.1"), "passed", "")])
    command.run(place, out, seed_file=tmp_path / "two")
    for other in (tmp_path / "one", None):
        with pytest.raises(ValueError, match=r"another secret.*--out"):
            command.run(place, out, seed_file=other)
    kept = [f for f in out.iterdir() if f.name != "records.jsonl"]
    assert all(f.stat().st_mode & 0o077 == 0 for f in kept)
    assert not any(b"number two" in f.read_bytes() for f in kept)


@pytest.mark.usefixtures("no_workers")
def test_one_assignment_of_several(tmp_path, capsys):
    """Chosen exercises alone are graded, under a title of their own; no other list is mixed in."""
    place, out = tmp_path / "in", tmp_path / "out"
    place.mkdir()
    other = "def predict_doubling():\n    return 9, 4\n\n\n"
    (place / "ada.py").write_text(other + "def naive_attention(q, k, v):\n    return q\n")
    command = ["grade", str(place), "--out", str(out)]
    chosen = [*command, "--only", "1.2", "--format", "canvas", "--title", "Week 1, all of it"]
    assert cli.main(chosen) == 0
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert {line["exercise"] for line in records} == {"1.2"}
    head, possible, _ = csv.reader((out / "canvas.csv").read_text("utf-8").splitlines())
    assert head[-1] == "Week 1, all of it"
    assert float(possible[-1]) == find("1.2").points
    capsys.readouterr()
    for other in (command, [*command, "--only", "1.2", "1.1"]):
        assert cli.main(other) == 2
        assert "choose another --out" in capsys.readouterr().err


SLEEPS = "import time\n\n\ndef echo(x):\n    time.sleep(600)\n"


@pytest.mark.parametrize(
    ("ends", "sent", "status"),
    [
        (os.kill, signal.SIGTERM, 143),
        (os.kill, signal.SIGHUP, 129),
        (os.kill, signal.SIGKILL, -9),
        (os.killpg, signal.SIGTERM, 143),  # as `timeout` does
        (os.killpg, signal.SIGKILL, -9),
    ],
)
def test_what_ends_the_command_ends_all_that_it_started(tmp_path, ends, sent, status):
    place, temporary = tmp_path / "class", tmp_path / "tmp"
    place.mkdir()
    temporary.mkdir()
    for name in ("ada", "bob"):
        (place / f"{name}.py").write_text(SLEEPS)
    asked = ["grade", str(place), "--out", str(tmp_path / "out"), "--only", "0.1", "--jobs", "2"]
    command = subprocess.Popen(
        [sys.executable, "-m", "course_lib.cli", *asked],
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(temporary)},
        # under nohup the suite, and so the command, would rightly ignore a SIGHUP
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    started: list[int] = []
    try:
        started = those_that_sleep(command.pid)
        ends(command.pid, sent)
        assert command.wait(30) == status
        end = time.monotonic() + 20
        while left := [pid for pid in started if lives(pid)]:
            assert time.monotonic() < end, left
            time.sleep(0.1)
        if ends is os.kill and status > 0:
            assert not list(temporary.glob("course-grade-*"))
    finally:
        for pid in (command.pid, *started):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def those_that_sleep(command: int) -> list[int]:
    """Return what a command has started once that is there for three seconds: it was asked."""
    seen, since = processes(command), time.monotonic()
    end = since + 120
    while len(seen) < 7 or time.monotonic() < since + 3:  # a tracker; twice worker, zygote, child
        assert time.monotonic() < end, seen
        time.sleep(0.2)
        if (now := processes(command)) != seen:
            seen, since = now, time.monotonic()
    return seen
