"""The course on macOS and on Windows, as far as Linux can show them: lessons, checks, grading.

What is shown there, and to whom, says `elsewhere.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from conftest import ROOT
from helpers import solutions

from course_lib.child.extract import to_source
from course_lib.lessons import all_lessons

LESSONS = [one.number for one in all_lessons()]
PLATFORM = {"macOS": "darwin", "Windows": "win32"}
HAS = {"macOS": [True, True, True, False], "Windows": [False, False, False, False]}
SAID = """
import json, sys, time
sys.path.insert(0, "tests")
from helpers import solutions
from course_lib import checking, doctor, store
from course_lib.child.extract import to_source
from course_lib.sandbox import limit, zygote
from course_lib.sandbox.limit import TookTooLong, at_most

def passes(function):
    checking.check(function)
    return store.load()["attempts"]

def is_stopped():
    try:
        with at_most(0.1):
            while True:
                pass
    except TookTooLong:
        return True

# what it imports in children: the others are as they are here, which test_doctor has seen
imported = doctor._import_error
doctor._import_error = lambda name: imported(name) if name == "triton" else ""

names = [(zygote.os, "fork"), (limit.signal, "setitimer"), (limit.time, "clock_gettime")]
print(json.dumps({
    "platform": zygote.sys.platform,
    "has": [hasattr(*name) for name in names] + [hasattr(zygote.os, "pidfd_open")],
    "doctor": [str(line) for line in doctor.diagnose(doctor.examine())],
    "stopped": is_stopped(),
    "source": to_source(solutions(5).vector_add),
}))
for solved in (solutions(3).stream_average, solutions(5).vector_add):
    print(json.dumps(passes(solved)))
"""


def run(python, *arguments):
    """Run a Python in the repository, as a student would: nobody has asked for a mode."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return subprocess.run(
        [python, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.few(1)
def test_a_check_the_doctor_and_a_copy_are_as_here(elsewhere):
    system, python = elsewhere
    done = run(python, "-c", SAID)
    assert done.returncode == 0, done.stderr
    said, *_, attempts = [json.loads(line) for line in done.stdout.splitlines() if line[0] == "{"]
    assert said["platform"] == PLATFORM[system]
    assert said["has"] == HAS[system]
    assert f" on {system}." in said["doctor"][0]
    assert said["doctor"][-1].endswith("All lessons run here.")
    assert said["stopped"]
    assert said["source"] == to_source(solutions(5).vector_add)
    assert [entry["passed"] for entry in attempts.values()] == [True, True]


@pytest.mark.parametrize("elsewhere", ["Windows"], indirect=True)
def test_windows_says_at_once_that_it_does_not_grade(elsewhere, tmp_path):
    _, python = elsewhere
    (tmp_path / "eve.py").write_text("")
    command = ["-m", "course_lib.cli", "grade", str(tmp_path), "--out", str(tmp_path / "out")]
    done = run(python, *command)
    assert (done.returncode, done.stderr) == (
        2,
        "Grading needs Linux (or macOS, unsandboxed); on Windows, grade in WSL.\n",
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("lesson", LESSONS)
def test_every_lesson_runs_and_every_solution_passes(elsewhere, lesson):
    tests = f"-p no:cacheprovider tests/course/test_notebooks.py --lesson {lesson} --timeout 900"
    which = ["-k", "a_lesson_runs or every_solution"]
    done = run(elsewhere[1], "-m", "pytest", *tests.split(), *which)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("elsewhere", ["macOS"], indirect=True)
def test_macos_grades_without_a_fork_and_leaves_what_must_compile_to_linux(elsewhere, tmp_path):
    _, python = elsewhere
    (solved,) = (ROOT / "solutions").glob("05_*.ipynb")
    handed_in = tmp_path / "handed_in"
    handed_in.mkdir()
    shutil.copy(solved, handed_in / "eve.ipynb")
    command = ["-m", "course_lib.cli", "grade", str(handed_in), "--out", str(tmp_path / "out")]
    refused = run(python, *command)
    assert (refused.returncode, "level: limits-only" in refused.stderr) == (2, True)
    done = run(python, *command, "--allow-unsandboxed")
    lines = (tmp_path / "out" / "records.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    said = {one["exercise"]: (one["outcome"], one["sandbox"]) for one in records}
    person = ("infrastructure", "limits-only")
    assert said.pop("5.1") == ("passed", "limits-only")
    assert said == dict.fromkeys(("5.2", "5.3", "5.4"), person), records
    assert all("grade it on Linux" in one["message"] for one in records[1:])
    assert done.returncode == 1, done.stderr
