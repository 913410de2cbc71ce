"""A lesson that `course new` begins is everywhere at once; without its folders it is nowhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

from course_lib import __version__

FOLDERS = (
    ".ci",
    "benchmarks",
    "course_lib",
    "sources",
    "notebooks",
    "exercises",
    "solutions",
    "tests",
    "docs",
)
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*cache", "submissions", "build", "*.egg-info")
NAME = "99_throw_away"
MINE = (f"sources/{NAME}", "course_lib/specs/lesson_99", "tests/submissions/99.1")


def run(course: Path, *arguments: str, status: int = 0) -> str:
    """Run Python in ``course``, with its own course_lib; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(course), "COURSE_STORE": str(course / "s.json")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=course, env=environment, capture_output=True, text=True
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def command(course: Path, *arguments: str, status: int = 0) -> str:
    return run(course, "-m", "course_lib.cli", *arguments, status=status)


def copied(home: Path) -> Path:
    """Return a copy of the repository, without its corpus."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, home / name, ignore=LEFT_OUT)
    for file in (path for path in ROOT.iterdir() if path.is_file()):
        shutil.copy(file, home)
    (home / "tests" / "submissions").mkdir()
    return home


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """Return a copy with a lesson 99 of two exercises, as `course new` leaves it, built."""
    home = copied(tmp_path_factory.mktemp("repository"))
    command(home, "new", "lesson", "99", "throw_away")
    command(home, "new", "exercise", "99.2", "twice")
    made = command(home, "build").splitlines()
    assert {f"{f}/{NAME}.ipynb" for f in ("notebooks", "exercises", "solutions")} < {*made}
    return home


def test_it_is_built_and_documented(course):
    assert "Every notebook" in command(course, "build", "--check")
    row = "| 99 | Throw away | a function that doubles | NumPy |"
    assert row in (course / "README.md").read_text(encoding="utf-8")


def test_it_is_listed(course):
    assert "99.1  exercise_99_1(x) " in command(course, "list")
    assert "Lesson 99  ·99.1 ·99.2" in command(course, "progress")
    bare = "from course_lib.doctor import *; print(*diagnose(Facts((3, 11, 0), 'Darwin', {})))"
    assert " and 99 do not run yet" in run(course, "-c", bare)
    assert "Hint 1 of 3 for 99.2" in command(course, "hint", "99.2")


def test_it_is_checked(course):
    said = command(course, "check", f"exercises/{NAME}.ipynb", status=1)
    assert said.count("not attempted") == 2
    assert command(course, "check", f"solutions/{NAME}.ipynb").count("passed") == 2
    wrong = command(course, "check", "tests/submissions/99.1/wrong/squared.py", status=1)
    assert "x times x" in wrong


@pytest.mark.slow
def test_what_is_scaffolded_passes_the_tests(course):
    """The same tests that every lesson and every exercise passes, run in the copy."""
    files = ("test_lessons", "specs/test_submissions", "specs/test_nulls", "course/test_notebooks")
    chosen = "99 or Throw or throw or order or ids_ or arc"
    paths = [str(course / "tests" / f"{file}.py") for file in files]
    said = run(course, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA", "-k", chosen, *paths)
    for name in ("99.1-squared", "99.2-plain", "doing_nothing_fails[99.1]", "solution_passes[99"):
        assert name in said


def test_it_is_graded(course, tmp_path):
    handed_in = tmp_path / "in"
    for student, folder in (("ada", "solutions"), ("bob", "exercises")):
        (handed_in / student).mkdir(parents=True)
        shutil.copy(course / folder / f"{NAME}.ipynb", handed_in / student)
    command(course, "grade", str(handed_in), "--out", str(tmp_path / "out"))
    lines = (tmp_path / "out" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    found = {(r["student"], r["exercise"]): r["outcome"] for r in map(json.loads, lines)}
    assert found == {
        ("ada", "99.1"): "passed",
        ("ada", "99.2"): "passed",
        ("bob", "99.1"): "not attempted",
        ("bob", "99.2"): "not attempted",
    }


def test_it_travels_to_students(course, tmp_path):
    out = tmp_path / "students"
    command(course, "export-student", str(out))
    assert not (out / "sources").exists()
    assert "99.1  exercise_99_1(x) " in command(out, "list")
    assert "not attempted" in command(out, "check", f"exercises/{NAME}.ipynb", status=1)


def test_it_travels_in_the_wheel(course, tmp_path):
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    run(course, "-m", "pip", "wheel", *options, "-w", str(tmp_path), ".")
    (wheel,) = tmp_path.glob(f"*-{__version__}-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "site")
    listed = command(tmp_path / "site", "list")
    assert "99.1  exercise_99_1(x) " in listed
    assert "3.3" in listed


def test_without_its_three_folders_it_is_nowhere(course, tmp_path):
    home = tmp_path / "course"
    shutil.copytree(course, home, ignore=LEFT_OUT)
    for folder in MINE[:2]:
        shutil.rmtree(home / folder)
    made = command(home, "build").splitlines()
    folders = ("exercises", "notebooks", "solutions")
    assert sorted(made) == ["README.md", *(f"{f}/{NAME}.ipynb removed" for f in folders)]
    assert "99" not in command(home, "list") + command(home, "progress")
    before, after = (
        {path.relative_to(at): path.read_bytes() for path in files_of(at)} for at in (ROOT, home)
    )
    assert before == after


def files_of(root: Path) -> list[Path]:
    """Return what is built and what says so: every notebook, README and the specs' facts."""
    built = [p for f in ("notebooks", "exercises", "solutions") for p in root.glob(f"{f}/*.ipynb")]
    return [*built, root / "README.md", *root.glob("course_lib/specs/*/lesson.toml")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("lesson", "99", "again"), "There is a lesson 99 already"),
        (("lesson", "98", "Upper Case"), "is no name"),
        (("exercise", "99.1"), "has 99.1 or exercise_99_1 already"),
        (("exercise", "97.1"), "There is no lesson 97 yet"),
        (("exercise", "nine"), "is no id"),
        (("exercise", "99.3", "not-a-name"), "is no name of a function"),
    ],
)
def test_nothing_is_overwritten_and_nothing_made_that_could_not_be_built(course, arguments, says):
    environment = {**os.environ, "PYTHONPATH": str(course)}
    done = subprocess.run(
        [sys.executable, "-m", "course_lib.cli", "new", *arguments],
        cwd=course,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert not (course / "course_lib/specs/lesson_98").exists()
