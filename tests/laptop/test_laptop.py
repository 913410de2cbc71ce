"""The checks say the same on the stand-in as on Triton's own core: verdicts, names and bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from corpus import corpus
from drawn import swept
from laptop.told import told

from course_lib.accounting.measurements import load_measurements
from course_lib.child.compiled import RECORD
from course_lib.lessons import all_exercises, all_lessons, find

ASK = Path(__file__).parent / "told.py"
KERNELS = {lesson.number for lesson in all_lessons() if "triton" in lesson.needs}
SOLUTIONS = [f"solution/{e.id}" for e in all_exercises() if e.lesson in KERNELS]
SUBMISSIONS = [
    one.id
    for kind in ("right", "wrong")
    for one in corpus(kind)
    if find(one.exercise).lesson in KERNELS
]
SOME = [id for id in SOLUTIONS if find(id[9:]).lesson in (5, 6, 7)][::3]
SOME += [id for id in SUBMISSIONS if id[0] in "567"][::120]


def told_here(ids):
    """Return what `told` says of each id on Triton's own core."""
    return [without_seconds(one) for one in json.loads(json.dumps([told(id) for id in ids]))]


def told_by(python, ids):
    """Return what `told` says of each id, in a process of that Python."""
    return [without_seconds(one) for one in asked(python, ids)]


def asked(python, ids):
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [python, ASK, *ids], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def without_seconds(one):
    return {name: value for name, value in one.items() if name != "seconds"}


def assert_same(laptop, ids):
    theirs, ours = told_here(ids), told_by(laptop, ids)
    assert [one["id"] for one in ours] == ids
    for one, other in zip(ours, theirs, strict=True):
        assert one == other
    assert all(one["verdict"] == "passed" for one in ours if "/wrong/" not in one["id"])


@pytest.mark.parametrize("ids", swept([SOME[::2], SOME], [SOME[::2]], lambda ids: str(len(ids))))
def test_solutions_and_submissions_are_told_the_same(laptop, ids):
    """Of some: `make test-slow` asks of all."""
    assert_same(laptop, ids)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_solution_is_told_the_same(laptop):
    assert_same(laptop, SOLUTIONS)


CHECK = """
import sys
sys.path[:0] = ["tests", "benchmarks"]
from compiled_lessons import CELLS, run_cells
from helpers import solutions
from course_lib import checking
print(checking.report_for(solutions(5).vector_add, seed=1).text())
for lesson in CELLS:
    run_cells(lesson)
"""


def test_what_cannot_be_compiled_here_is_no_failure_and_lessons_have_its_record(laptop):
    done = subprocess.run(
        [laptop, "-c", CHECK], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # on a busy machine "Checking 5.2 ..." stands before it
    assert "✓ 5.2 vector_add: passed" in done.stdout.splitlines()
    words = " ".join(done.stdout.split())
    assert "Right here, in Triton's interpreter; compiled when graded, or on Linux." in words
    rows = load_measurements(RECORD)["rows"]
    for row in rows:
        assert f"What the compiler said of `{row['of']}` was recorded with Triton 3.7.1" in words
    assert words.count("was recorded with") == len(rows)
    assert "sums_a: does not compile" in words
    assert "sums_b: compiles" in words
    assert "128x128 255 176" in words


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_lesson_07_takes_no_longer_than_half_as_long_again(laptop):
    ids = [id for id in SOLUTIONS if id.startswith("solution/7")]
    ours, theirs = (
        min(sum(one["seconds"] for one in asked(python, ids)) for _ in range(2))
        for python in (laptop, sys.executable)
    )
    assert ours < 1.5 * theirs


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("exercise", sorted({id.split("/")[0] for id in SUBMISSIONS}))
def test_every_submission_is_told_the_same(laptop, exercise):
    assert_same(laptop, [id for id in SUBMISSIONS if id.startswith(f"{exercise}/")])
