"""`tests/` mirrors `course_lib/`: a room's tests stand in the folder of its name, by module."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT

COURSE, TESTS = ROOT / "course_lib", ROOT / "tests"
ROOMS = sorted(f.name for f in COURSE.iterdir() if (f / "__init__.py").exists())
# what is no room: the course as a whole, the rules of its code, files that tests read
BESIDE = {"course", "house", "hostile", "mutants", "submissions"}
# tests of several modules at once, named after what they try
OF_A_WHOLE_ROOM = {
    "classroom": {"hostile_notebooks"},
    "kernels": {"fuzz"},
    "sandbox": {"corpus_in_the_sandbox", "hostile", "hostile_controls"},
    "specs": {"hard_cases", "lesson_10_kernels", "nulls", "submissions"},
    "laptop": {"elsewhere"},
    "widgets": {
        *("axe", "controls", "html_page", "javascript", "jupyterlab"),
        *("parts", "playthrough", "views"),
    },
}


def subjects(folder: Path) -> set[str]:
    return {file.stem.removeprefix("test_") for file in folder.glob("test_*.py")}


def names(folder: Path) -> set[str]:
    """Return the modules and packages of a room, and the room itself (its ``__init__``)."""
    return {file.stem for file in folder.rglob("*")} | {folder.name}


def test_every_folder_of_tests_is_a_room():
    folders = {f.name for f in TESTS.iterdir() if f.is_dir() and f.name != "__pycache__"}
    assert folders - set(ROOMS) == BESIDE


@pytest.mark.parametrize("room", [room for room in ROOMS if (TESTS / room).is_dir()])
def test_a_rooms_tests_are_named_after_its_modules(room):
    others = OF_A_WHOLE_ROOM.get(room, set())
    assert subjects(TESTS / room) - names(COURSE / room) == others


def test_tests_at_the_top_are_of_modules_at_the_top():
    assert subjects(TESTS) <= names(COURSE)
