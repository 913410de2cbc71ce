"""Every file of tests/hostile is graded: none gains a point, stops the batch, or gets out.

`make test` tries one in eight of each kind of attack, here and in `test_hostile_controls`.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from drawn import drawn, swept

from course_lib.classroom.grade_one import grade
from course_lib.classroom.record import Records
from course_lib.handin.submissions import Submission
from course_lib.sandbox.workshop import Workshop
from course_lib.specs import EXERCISES, find

FILES = sorted((Path(__file__).parents[1] / "hostile").glob("*.py"))


def kind(file: Path) -> tuple[str, str]:
    """Return what may become of a file, and where it is tried without a defence."""
    tries, undefended, *_ = file.read_text().splitlines()
    return tries.rpartition("; must: ")[2], undefended.partition(":")[0]


FEW = drawn(FILES, lambda file: file.name + file.read_text(), group=kind, one_in=8)
PATIENCE = 0.5
# the same exercises with a shorter patience, so that the endless ones are over soon
SHORT = [replace(e, seconds=PATIENCE) for e in EXERCISES]
RIGHT = {"passed", "not on a GPU"}  # what only right answers become: they may take their time
HONEST = Submission("honest", (("e.py", b"def echo(x):\n    return x.copy()\n"),))


@pytest.fixture(scope="module", autouse=True)
def full_sandbox(workshop) -> None:
    if workshop.level != "full":
        pytest.fail(f"hostile code needs the full sandbox; here it is {workshop.level}")


def target(text: str):
    """Return the exercise whose function or class the file defines."""
    defines = r"^(?:def {0}\(|class {0}:)".format
    (exercise,) = [e for e in SHORT if re.search(defines(e.function), text, re.MULTILINE)]
    return exercise


def test_the_corpus_is_large_and_says_what_it_tries():
    assert len(FILES) >= 130
    for file in FILES:
        assert re.match(r"# tries: .+; must: [a-zA-Z, ]+\n", file.read_text()), file.name


@pytest.mark.parametrize("file", swept(FILES, FEW, lambda file: file.stem))
def test_hostile(workshop, file, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "of the grader")
    text = file.read_text()
    allowed = re.match(r"# tries: .+; must: (.+)\n", text)[1].split(", ")
    exercise = target(text)
    if RIGHT & set(allowed):
        exercise = find(exercise.id)
    submission = Submission("mallory", ((file.name, text.encode()),))
    with workshop.student():  # a zygote that another test has killed comes back now
        before = below(workshop)

    lines = grade(workshop, submission, [exercise], b"a secret")

    Records(tmp_path / "records.jsonl").append(lines)  # what cannot be written stops the class
    (line,) = lines
    assert line["outcome"].removeprefix("right here, ") in allowed, line
    assert line["score"] == (exercise.points if line["outcome"] == "passed" else 0)
    assert line["sandbox"] == "full"
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f‪-‮]", line["message"])
    assert not list(Path("/tmp").glob("hostile_was_here"))
    end = time.monotonic() + 5  # what was killed may stand in /proc for a moment yet
    while (left := below(workshop) - before) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left, "a process was left behind"
    (after,) = grade(workshop, HONEST, [e for e in SHORT if e.id == "0.1"], b"s")
    assert after["outcome"] == "passed", "the next submission suffered"


def below(workshop: Workshop) -> set[int]:
    """Return what lives below the zygotes. (Below this process live browsers and kernels, too.)"""
    return {pid for zygote in workshop._zygotes.values() for pid in processes(zygote._process.pid)}


def processes(above: int) -> list[int]:
    """Return the processes below ``above``, by id."""
    below = {above}
    found = []
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda f: int(f.name)):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) in below:
            below.add(int(folder.name))
            found.append(int(folder.name))
    return found


def lives(pid: int) -> bool:
    """Return whether a process is there and has not ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
