"""TEACHING.md names headings, cells and exercises that exist, and its code runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from course_lib.lessons import all_exercises, all_lessons
from course_lib.specs import EXERCISES

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "TEACHING.md").read_text(encoding="utf-8")
LESSONS = {
    path.parent.name[:2]: path.read_text(encoding="utf-8")
    for path in (ROOT / "sources").glob("*/lesson.py")
}
ROWS = [line for line in TEXT.splitlines() if re.match(r"\| .*\d\d[ ,]", line)]


def _named(pattern: str) -> list[tuple[str, str]]:
    """Return (lesson, name) for what stands in the table rows after the number of its lesson."""
    found = []
    for row in ROWS:
        lesson = ""
        for match in re.finditer(rf"\b({'|'.join(LESSONS)})\b|{pattern}", row):
            lesson = match[1] or lesson
            if match[2] and lesson:
                found.append((lesson, match[2]))
    return found


@pytest.mark.parametrize(("lesson", "heading"), _named(r"\*([^*]{6,})\*(?!\*)"))
def test_heading_exists(lesson: str, heading: str) -> None:
    """Every heading that the instructor is sent to stands in that lesson."""
    assert re.search(rf"^# ##+ {re.escape(heading)}$", LESSONS[lesson], re.M)


@pytest.mark.parametrize(("lesson", "cell"), _named(r"`([a-z]+(?:-[a-z]+)+)`"))
def test_cell_exists(lesson: str, cell: str) -> None:
    """Every cell that the instructor is sent to stands in that lesson."""
    assert re.search(rf"^# %% {cell}\b", LESSONS[lesson], re.M)


def _places() -> list[tuple[str, str, list[int]]]:
    """Return (lesson, cell of a table, where what it names begins), a cell with several names."""
    found = []
    for row in ROWS:
        lesson = ""  # it may stand in the column before
        for cell in row.split("|"):
            places: dict[str, list[int]] = {}
            for match in re.finditer(
                rf"\b({'|'.join(LESSONS)})\b|\*([^*]{{6,}})\*(?!\*)|`([a-z]+(?:-[a-z]+)+)`", cell
            ):
                lesson = match[1] or lesson
                name = rf"# ##+ {re.escape(match[2])}$" if match[2] else rf"# %% {match[3]}\b"
                if not match[1] and lesson and (at := re.search(f"^{name}", LESSONS[lesson], re.M)):
                    places.setdefault(lesson, []).append(at.start())
            found += [(lesson, cell.strip()[:40], where) for lesson, where in places.items()]
    return [one for one in found if len(one[2]) > 1]


@pytest.mark.parametrize(("lesson", "cell", "places"), _places())
def test_what_a_cell_names_stands_in_that_order(lesson: str, cell: str, places: list[int]) -> None:
    """Names of one lesson in one cell of a table come as they come in the lesson."""
    assert places == sorted(places), (lesson, cell)


def test_exercises_exist() -> None:
    """Every exercise that the tables name is one."""
    numbers = "|".join(str(lesson.number) for lesson in all_lessons())
    named = set(re.findall(rf"(?<![\w.-])((?:{numbers})\.\d)(?![\w])", "\n".join(ROWS)))
    assert named
    assert named <= {e.label.rstrip("ab") for e in all_exercises()}


def test_whose_books_can_be_forged_is_said() -> None:
    """Every exercise is named whose books are kept where the student's code runs."""
    _, _, told = TEXT.partition("- Numbers and bytes of kernels are judged")
    told, _, _ = told.partition("- The sandbox hides")
    forgeable = {
        e.label
        for e in EXERCISES
        if (e.kind == "kernel" and e.later)
        or (e.kind != "kernel" and any(case.counted for case in e.cases(np.random.default_rng(1))))
    }
    assert {"10.2", "9.6"} < forgeable
    assert not [label for label in forgeable if not re.search(rf"(?<![\d.]){label}(?!\d)", told)]


def test_exit_ticket_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit ticket can be pasted into a notebook, and a room's answers drawn."""
    monkeypatch.setenv("COURSE_STORE", str(tmp_path / "store.json"))
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    shown: list[object] = []
    names: dict[str, object] = {"display": lambda *things: shown.extend(things)}
    exec(blocks[1], names)
    reads, faster, above = shown
    assert reads.parse_room("8, 1, 64, many") == ([8, 1, 64], ["many"])
    assert faster.parse_room("c, a")[0][0] == "bytes alone do not say"
    assert above.parse_room("b")[0] == ["shrinking O"]


def test_hours_are_those_of_the_lessons() -> None:
    """What the first lines promise is what the lessons of Part I and their exercises add up to."""
    part = [lesson for lesson in all_lessons() if lesson.part == "I"]
    exercises = [exercise for lesson in part for exercise in lesson.exercises]
    asked = sum(exercise.minutes for exercise in exercises if "star" not in exercise.id)
    minutes = sum(lesson.minutes for lesson in part), asked, sum(e.minutes for e in exercises)
    words = {5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}
    lessons, some, whole = (words[round(one / 60)] for one in minutes)
    assert f"{lessons} hours of lessons and {some} of exercises ({whole} with stars)" in TEXT
