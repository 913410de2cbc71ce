"""The outer layer: what cannot even be asked about in it, and that all else is as without it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from corpus import sample
from sandbox.test_hostile import below, lives

from course_lib.classroom import command, job
from course_lib.classroom.grade_one import grade
from course_lib.classroom.job import Unsafe
from course_lib.handin.submissions import Submission
from course_lib.sandbox import bubblewrap
from course_lib.specs import find

ASKS = """import os


def echo(names):
    found = []
    for name in names:
        try:
            found.append(os.stat(name).st_size >= 0)
        except OSError as error:
            found.append(type(error).__name__)
    return found
"""


@pytest.fixture(scope="module")
def wrapped():
    if why := bubblewrap.problem():
        pytest.skip(why)
    with job.workshop(outer=True) as room:
        yield room
        lived = below(room)
    assert lived, "bubblewrap itself has children"
    assert not [pid for pid in lived if lives(pid)], "a process was left behind"


def asked(room, *names: str) -> list:
    with room.student() as child:
        until = time.monotonic() + 60
        load = {"do": "load", "program": ASKS, "slug": "ex-0-1", "function": "echo", "run": None}
        child.ask(load, until)
        case = {"do": "case", "args": (list(names),), "kwargs": {}, "counted": False}
        return child.ask(case | {"kernel": False}, until)["result"]


def test_no_other_file_can_be_asked_about(wrapped, workshop, tmp_path):
    (secret := tmp_path / "submission_of_ada.py").write_text("x")
    outside = [str(secret), str(tmp_path), "/etc/passwd", str(Path(__file__))]
    assert asked(wrapped, *outside) == ["FileNotFoundError"] * 4
    assert asked(workshop, *outside) == [True] * 4, "without the layer they can"
    assert asked(wrapped, find.__code__.co_filename) == [True], "the course is there"


def test_the_level_says_it_and_verdicts_are_the_same(wrapped):
    assert wrapped.level == "full in bubblewrap"
    for name, outcome in (("5.2/right/plain", "passed"), ("1.2/right/plain", "passed")):
        exercise = find(name.partition("/")[0])
        text = sample(name).text.encode()
        (line,) = grade(wrapped, Submission("ada", (("e.py", text),)), [exercise], b"a secret")
        assert (line["outcome"], line["sandbox"]) == (outcome, "full in bubblewrap"), line
    wrong = (("e.py", b"def echo(x):\n    return x + x\n"),)
    (line,) = grade(wrapped, Submission("ada", wrong), [find("0.1")], b"a secret")
    assert line["outcome"] == "incorrect"


def test_a_machine_without_it_grades_nothing_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "does not start" in bubblewrap.problem()
    with pytest.raises(Unsafe, match="leave out --bubblewrap"):
        command.run(tmp_path, tmp_path / "out", outer=True)
