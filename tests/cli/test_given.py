"""course solution and course reset: what the course gave, and nothing of a student's is lost."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path

import pytest
from conftest import ROOT
from small_course import solve

from course_lib import lessons, store
from course_lib.authoring import originals
from course_lib.cli import main

EXERCISES = Path("exercises/03_small.ipynb")


def cells(path: Path) -> dict[str, str]:
    return {c["id"]: "".join(c["source"]) for c in json.loads(path.read_text("utf-8"))["cells"]}


@pytest.mark.parametrize("lesson", lessons.all_lessons(), ids=lambda lesson: f"{lesson.number:02}")
def test_blanks_made_of_solutions_are_the_exercises(lesson, monkeypatch):
    """As committed, to the last byte: what `course reset` writes is what was given."""
    monkeypatch.chdir(ROOT)
    name, text = originals.blank_notebook(lesson.number)
    assert text.encode() == (ROOT / "exercises" / name).read_bytes()


def test_a_solution_is_shown_after_a_pass(course, capsys):
    store.record_attempt("3.1", "passed")
    assert main(["solution", "3.1"]) == 0
    shown = capsys.readouterr().out
    assert "    return x + x + OFFSET\n" in shown
    assert "SOLUTION" not in shown
    assert "gave_up" not in store.load()["attempts"]["3.1"]


def test_giving_up_is_recorded_once_and_for_good(course, capsys):
    assert main(["solution", "twice", "--give-up"]) == 0
    assert "return x + x" in capsys.readouterr().out
    entry = store.load()["attempts"]["3.1"]
    assert (entry["passed"], entry["tries"]) == (False, 0)
    assert main(["list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("  gave up")
    store.record_attempt("3.1", "passed")
    assert store.load()["attempts"]["3.1"]["gave_up"] == entry["gave_up"]
    other = {"attempts": {"3.1": {"tries": 1, "passed": True, "when": "9999", "last": "passed"}}}
    store.merge(other)
    assert store.load()["attempts"]["3.1"]["gave_up"] == entry["gave_up"]


def test_a_copy_without_solutions_says_so(course, monkeypatch, capsys):
    monkeypatch.setattr(originals, "_roots", lambda: [course])
    shutil.rmtree(course / "solutions")
    assert main(["solution", "3.1", "--give-up"]) == 2
    assert main(["reset", "3.1"]) == 2
    assert [line[:24] for line in capsys.readouterr().err.splitlines()] == [
        "This copy of the course "
    ] * 2
    assert "3.1" not in store.load()["attempts"]


def test_reset_puts_one_cell_back_and_keeps_what_was_there(course, capsys):
    given = EXERCISES.read_bytes()
    mine = 'def twice(x):\n    return "«mine»"'
    solve(course, "ex-3-1", mine)
    solve(course, "use", "my = 'notes'")
    before = cells(EXERCISES)
    assert main(["reset", "3.1"]) == 0
    kept = EXERCISES.parent / f"my_twice_{datetime.now():%Y-%m-%d}.py"
    assert kept.name in capsys.readouterr().out
    assert kept.read_text() == mine + "\n"
    after = cells(EXERCISES)
    assert {slug for slug in after if after[slug] != before[slug]} == {"ex-3-1"}
    assert after["ex-3-1"] == cells_of(given)["ex-3-1"]
    assert main(["reset", "3.1"]) == 0
    assert capsys.readouterr().out == "03_small.ipynb is as it was given.\n"
    solve(course, "ex-3-1", "x = 1")
    assert main(["reset", "3.1"]) == 0
    assert kept.read_text() == mine + "\n"
    assert kept.with_name(f"{kept.stem}_2.py").read_text() == "x = 1\n"


def cells_of(text: bytes) -> dict[str, str]:
    return {c["id"]: "".join(c["source"]) for c in json.loads(text)["cells"]}


def test_reset_of_a_lesson_puts_the_whole_notebook_back(course, capsys):
    given = EXERCISES.read_bytes()
    EXERCISES.write_text("{ damaged")
    assert main(["reset", "03"]) == 0
    kept = EXERCISES.with_name(f"my_03_small_{datetime.now():%Y-%m-%d}.ipynb")
    assert kept.read_text() == "{ damaged"
    assert EXERCISES.read_bytes() == given
    assert main(["reset", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "03_small.ipynb is as it was given."
    EXERCISES.unlink()
    assert main(["reset", "3"]) == 0
    assert EXERCISES.read_bytes() == given


def test_a_cell_that_has_gone_is_named_and_nothing_changes(course, capsys):
    EXERCISES.write_text(EXERCISES.read_text("utf-8").replace('"ex-3-1"', '"gone"'))
    before = EXERCISES.read_bytes()
    assert main(["reset", "3.1"]) == 2
    assert "no cell 'ex-3-1'" in capsys.readouterr().err
    assert EXERCISES.read_bytes() == before


@pytest.fixture
def elsewhere(tmp_path_factory, monkeypatch) -> Path:
    """Return an empty folder, outside any course, as the current one; the course is installed."""
    folder = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(folder)
    monkeypatch.setattr("course_lib.cli.given.course_root", nowhere)
    return folder


def nowhere(*_: str) -> Path:
    from course_lib.cli.shared import UsageError

    raise UsageError("no course here")


def test_catch_up_without_a_checkout_prints_what_is_to_be_pasted(elsewhere, capsys):
    assert main(["catch-up", "7.2"]) == 0
    head, *code = capsys.readouterr().out.splitlines()
    assert head.startswith("# the solution of 7.1, for the cell of ")
    compile("\n".join(code), "cell", "exec")
    assert not list(elsewhere.iterdir())


def test_a_downloaded_notebook_is_caught_up_reset_and_exported(elsewhere, capsys):
    name = "07_flash_attention_in_triton.ipynb"
    given = (ROOT / "exercises" / name).read_bytes()
    Path(name).write_bytes(given)
    assert main(["catch-up", "7.2"]) == 0
    assert Path(name).read_bytes() != given
    assert main(["reset", "7.1"]) == 0
    assert Path(name).read_bytes() == given
    assert main(["export", "7.4"]) == 2
    assert "7.4 is not attempted yet" in capsys.readouterr().err
    Path(name).write_bytes((ROOT / "solutions" / name).read_bytes())
    assert main(["export", "7.4"]) == 0
    assert "@triton.jit" in Path("my_flash_attention.py").read_text()
    Path(name).unlink()
    for command in (["reset", "7.1"], ["export", "7.4"]):
        assert main(command) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
