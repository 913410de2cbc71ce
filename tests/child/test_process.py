"""A child process: the mode asked for, data back, exceptions as data, and an end in any case."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from course_lib.child import process as child
from course_lib.child.extract import NotExtractable

TASK = "child_task:describe"
START = child._start  # before tests/conftest.py puts another in its place


@pytest.fixture(autouse=True)
def findable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


@pytest.fixture(autouse=True, params=["fresh", "forked"])
def own_start(request, monkeypatch, warm_children):
    """Say everything of the child that students get and of the one that tests fork."""
    if request.param == "fresh":
        monkeypatch.setattr(child, "_start", START)


def answer(a, b):
    print("thinking")
    return a / b


@pytest.mark.parametrize(("mode", "seen"), [("interpreter", "interpreter"), ("compile", "gpu")])
def test_the_child_runs_in_the_mode_asked_for_and_brings_data_back(mode, seen):
    result = child.run(answer, TASK, [6, 4], mode=mode)
    assert result.ok, result.failure
    expected = {"mode": seen, "threads": "1", "answer": 1.5}
    assert result.value == expected
    assert result.printed == "thinking\n"
    assert os.environ.get("TRITON_INTERPRET") != "0", "the parent's own mode is untouched"


def test_a_students_exception_comes_back_with_their_line():
    result = child.run(answer, TASK, [1, 0], mode="interpreter")
    failure = result.failure
    assert (failure.kind, failure.type) == ("student", "ZeroDivisionError")
    (frame,) = failure.frames
    first = answer.__code__.co_firstlineno
    assert (frame.file, frame.line) == (answer.__code__.co_filename, first + 2)
    assert (frame.function, frame.text) == ("answer", "return a / b")


def test_a_file_that_does_not_import_is_the_students_doing():
    result = child.run("answer = missing\n", TASK, [], mode="interpreter")
    assert (result.failure.kind, result.failure.type) == ("student", "NameError")


def test_a_failing_task_is_not_the_students_doing():
    source = "def answer(a, b):\n    return 0\n"
    result = child.run(source, "child_task:no_such_task", [1, 2], mode="interpreter")
    assert result.failure.kind == "infrastructure"


def test_a_child_that_dies_is_reported():
    source = "import os\nos._exit(3)\n"
    result = child.run(source, TASK, [], mode="interpreter")
    assert (result.failure.kind, result.failure.type) == ("infrastructure", "ChildDied")
    assert "exit status 3" in result.failure.message
    source = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    result = child.run(source, TASK, [], mode="interpreter")
    assert "SIGSEGV" in result.failure.message


FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open({path!r}, "w") as file:
    print(child.pid, file=file)
time.sleep(600)
"""


def test_a_child_that_never_ends_is_stopped_with_all_its_own_children(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "pid"
    started = time.perf_counter()
    source = FAMILY.format(path=str(path))
    result = child.run(source, TASK, [], mode="interpreter", timeout=4)
    assert time.perf_counter() - started < 20
    assert result.failure.kind == "timeout"
    assert "4 seconds" in result.failure.message
    pid = int(path.read_text())
    for _ in range(50):  # the kernel may take a moment
        if not _alive(pid):
            break
        time.sleep(0.1)
    assert not _alive(pid)
    assert [file.name for file in tmp_path.iterdir()] == ["pid"], "the folder is gone"


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_what_cannot_be_extracted_is_said_before_a_child_starts():
    with pytest.raises(NotExtractable):
        child.run(lambda: 1, TASK, [], mode="interpreter")
