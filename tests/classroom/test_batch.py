"""A class graded by several workers: each submission once, whatever dies on the way."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re

import nbformat
import numpy as np
import pytest

from course_lib import __version__
from course_lib.classroom import batch
from course_lib.classroom.gradebooks import plain_csv
from course_lib.classroom.job import Job, Unsafe
from course_lib.classroom.record import Records, record
from course_lib.handin.submissions import (
    Submission,
    submissions,
)
from course_lib.specs import find

ECHO = "def echo(x):\n    return x.copy()\n"


WRONG = "def echo(x):\n    return x + x\n"


def notebook(**sources: str) -> str:
    cells = [nbformat.v4.new_code_cell(text, id=name) for name, text in sources.items()]
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells))


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Grade a small class with two workers, one of which is killed in the middle."""
    place, out = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("out")
    by_id = notebook(**{"ex-0-1": "import numpy as np\n" + ECHO, "other": "1/0"})
    nameless = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%matplotlib\n" + WRONG)])
    files = {
        "by_id.ipynb": by_id,
        "by_name.ipynb": re.sub(r'\s*"id": "[^"]*",', "", nbformat.writes(nameless)),
        "empty.ipynb": "",
        "no_notebook.ipynb": "{]",
        "deep.ipynb": "[" * 100_000,
        "binary.py": b"\xff\xfe\x00",
        "nothing.py": "x = 1\n",
        "broken.py": "def echo(x):\n    return (\n",
        "stub.py": "def echo(x):\n    raise NotImplementedError('not attempted')\n",
        "=cmd.py": "def echo(x):\n    raise ValueError('=1+1 <b>')\n",
    }
    files |= {f"good{i}.py": ECHO for i in range(6)}
    files["signal.py"] = "open('imported', 'w').close()\n" + ECHO  # a module of Python's, too
    for name, text in files.items():
        (place / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    killed = []

    def kill_one(_submission):
        if len(killed) < 1:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], 9)

    job = Job(b"a secret of the test", ("0.1",))
    records = Records(out / "records.jsonl")
    with contextlib.chdir(place):  # where a teacher may stand
        tally = batch.grade_class(submissions(place), records, job, jobs=2, progress=kill_one)
    return place, out, tally, files


def test_workers_that_die_between_two_submissions_lose_none(tmp_path):
    """They answer, die, and only then are given more: the pipe is broken at the sender."""
    place = tmp_path / "class"
    place.mkdir()
    for i in range(2):
        (place / f"good{i}.py").write_text(ECHO)
    killed = []

    def kill_all(_submission):
        for worker in multiprocessing.active_children() if not killed else ():
            killed.append(worker.pid)
            worker.kill()
            worker.join()

    records = Records(tmp_path / "records.jsonl")
    job = Job(b"a secret of the test", ("0.1",))
    tally = batch.grade_class(submissions(place), records, job, jobs=1, progress=kill_all)
    assert len(killed) == 1
    assert tally.graded == 2
    assert {line["outcome"] for (line,) in records.latest().values()} == {"passed"}


STUCK = """
import time
from course_lib.classroom import grade_one

def grade(workshop, submission, *rest, before=grade_one.grade):
    while submission.student == "stuck":
        time.sleep(1)
    return before(workshop, submission, *rest)

grade_one.grade = grade
"""


def test_a_worker_that_nothing_stops_is_killed_and_the_others_are_graded(tmp_path, monkeypatch):
    """What it does may be in C, where no clock of its own is heard."""
    (tmp_path / "sitecustomize.py").write_text(STUCK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(batch, "LONGEST", 8.0)
    records = Records(tmp_path / "r.jsonl")
    given = [Submission(name, (("e.py", ECHO.encode()),)) for name in ("stuck", "ada", "bob")]
    tally = batch.grade_class(given, records, Job(b"a secret of the test", ("0.1",)))
    outcomes = {name: lines[0]["outcome"] for name, lines in records.latest().items()}
    assert outcomes == {"stuck": "refused", "ada": "passed", "bob": "passed"}
    assert tally.for_a_person == 1
    assert batch.grade_class(given, records, Job(b"a secret of the test", ("0.1",))).kept == 3


OUTCOMES = {
    "by_id": "passed",
    "by_name": "incorrect",
    "empty": "refused",
    "no_notebook": "refused",
    "deep": "refused",
    "binary": "refused",
    "nothing": "refused",
    "broken": "error",
    "stub": "not attempted",
    "=cmd": "error",
    **{f"good{i}": "passed" for i in range(6)},
    "signal": "passed",
}


def test_every_submission_is_graded_exactly_once_though_a_worker_was_killed(graded):
    _, out, tally, files = graded
    lines = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert sorted(line["student"] for line in lines) == sorted(n.rpartition(".")[0] for n in files)
    assert {line["student"]: line["outcome"] for line in lines} == OUTCOMES
    assert tally.graded == len(files)
    assert tally.for_a_person == 5


def test_nothing_that_is_handed_in_is_imported_by_the_grader(graded):
    """Python looks first in the folder in which it is started with -c or -m, unless told not to."""
    assert not (graded[0] / "imported").exists()


def test_a_record_says_all_that_is_promised(graded):
    (line,) = Records(graded[1] / "records.jsonl").latest()["by_name"]
    assert line["exercise"] == "0.1"
    assert line["score"] == 0
    assert line["max_score"] == find("0.1").points
    assert line["property"] == "the values"
    assert line["misconception"] == "something is computed"
    assert line["fault_of"] == "student"
    assert line["sandbox"] == "full"
    assert line["cpu_seconds"] > 0
    assert {"torch", "triton", "numpy", "python", "course"} == set(line["versions"])
    passed = [p["passed"] for p in line["properties"]]
    assert len(passed) == len(find("0.1").cases(np.random.default_rng(1)))
    assert passed.count(False) > 1


def test_a_second_run_grades_only_what_changed(graded, monkeypatch):
    place, out, _, files = graded
    started = []
    monkeypatch.setattr(batch, "_work", lambda waiting, *_: started.extend(waiting) or iter(()))
    job = Job(b"a secret of the test", ("0.1",))
    (place / "good0.py").write_text(ECHO + "# changed\n")
    with open(out / "records.jsonl", "a") as file:
        file.write('{"student": "good1", "content": "torn')  # a run killed while writing
    tally = batch.grade_class(submissions(place), Records(out / "records.jsonl"), job)
    assert [s.student for s in started] == ["good0"]
    assert tally.kept == len(files) - 1


def test_without_a_whole_sandbox_nothing_is_graded(tmp_path, monkeypatch):
    class Weak:
        def __init__(self, job):
            self.connection, theirs = multiprocessing.Pipe()
            theirs.send(("level", "limits-only"))

        def watch(self):
            pass

        def close(self):
            pass

    monkeypatch.setattr(batch, "_Worker", Weak)
    records = Records(tmp_path / "r.jsonl")
    with pytest.raises(Unsafe, match="--allow-unsandboxed"):
        batch.grade_class([Submission("a", (("a.py", b""),))], records, Job(b"12345678"))
    assert not records.path.exists()


def test_records_of_other_exercises_are_graded_again(tmp_path, monkeypatch):
    """A submission that was refused for one list of exercises is not refused for another."""
    asked = []

    def refuse(waiting, job, *_):
        asked.append(job.exercises)
        return ((s, [record(s.student, s.content, None, "refused", "no")]) for s in waiting)

    monkeypatch.setattr(batch, "_work", refuse)
    records = Records(tmp_path / "r.jsonl")
    ada = Submission("ada", (("e.py", b"x = 1"),))
    for exercises in ((), (), ("7-star:a",), ("7-star:a",), ()):
        batch.grade_class([ada], records, Job(b"12345678", exercises))
    assert asked == [(), ("7-star:a",), ()]


def test_whose_name_is_unclear_is_for_a_person(tmp_path, monkeypatch):
    def passed(waiting, *_):
        lines = [record("bob [1]", "c", find("0.1"), "passed", "", passed=True)]
        return ((submission, lines) for submission in waiting)

    monkeypatch.setattr(batch, "_work", passed)
    records, bob = Records(tmp_path / "r.jsonl"), Submission("bob [1]", note="Who is this?")
    for _ in range(2):  # now, and when it is taken over from before
        tally = batch.grade_class([bob], records, Job(b"12345678"))
        assert tally.for_a_person == 1
    ((_, line),) = [(n, lines[0]) for n, lines in records.latest().items()]
    assert line["for_a_person"] == "Who is this?"
    assert plain_csv.rows(records.latest())[1][-1] == "Who is this?"


@pytest.mark.parametrize("left", ["", "\n", "abc"])
def test_a_secret_that_is_not_whole_is_never_used(tmp_path, left):
    (tmp_path / "secret_seed").write_text(left)
    with pytest.raises(ValueError, match="a secret at least 32"):
        batch.secret_of(tmp_path, None)
    assert (tmp_path / "secret_seed").read_text() == left


def test_a_full_disk_leaves_no_secret_and_another_run_is_not_overwritten(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            batch.secret_of(tmp_path, None)
    assert list(tmp_path.iterdir()) == []
    first = batch.secret_of(tmp_path, None)
    batch._write_secret(tmp_path / "secret_seed")  # as by a run that saw no file a moment ago
    assert batch.secret_of(tmp_path, None) == first
    assert [file.name for file in tmp_path.iterdir()] == ["secret_seed"]
    assert (tmp_path / "secret_seed").stat().st_mode & 0o077 == 0


def test_the_secret_is_kept_for_the_next_run_and_readable_by_nobody_else(tmp_path):
    first = batch.secret_of(tmp_path, None)
    assert first == batch.secret_of(tmp_path, None)
    assert (tmp_path / "secret_seed").stat().st_mode & 0o077 == 0


def test_records_of_another_version_of_the_course_are_graded_again(tmp_path, monkeypatch):
    """All of them and once: what this version has graded is kept."""
    graded = []

    def fail(waiting, *_):
        graded.extend(s.student for s in waiting)
        return ((s, [record(s.student, s.content, find("0.1"), "error", "no")]) for s in waiting)

    monkeypatch.setattr(batch, "_work", fail)
    records, job = Records(tmp_path / "r.jsonl"), Job(b"12345678", ("0.1",))
    two = [Submission(name, (("e.py", b"x = 1"),)) for name in ("ada", "bob")]
    assert batch.grade_class(two, records, job).graded == 2
    assert batch.grade_class(two, records, job).kept == 2
    older = records.path.read_text().replace(f'"course": "{__version__}"', '"course": "0.0.9"')
    records.path.write_text(older)
    tally = batch.grade_class(two, records, job)
    assert (tally.graded, tally.kept) == (2, 0)
    assert batch.grade_class(two, records, job).kept == 2
    assert graded == ["ada", "bob", "ada", "bob"]
