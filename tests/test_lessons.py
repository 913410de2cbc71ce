"""What lesson.toml says: complete, in agreement with the Python beside it, and cheap to read."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, lesson_name

from course_lib import lessons, specs

LESSONS = lessons.all_lessons()
FACTS = lessons.all_exercises()
# an exercise's label with its minutes: in a heading, in a table's row, in a sentence
MINUTES = re.compile(r"(\d+(?:\.\d+[ab]?|★)) [^\n(]*?(?:\(|\| )(\d+)(?= min| \|\n)")


def test_each_lesson_has_its_own_number_and_leads_to_a_later_one():
    numbers = [lesson.number for lesson in LESSONS]
    assert numbers == sorted(set(numbers))
    for lesson in LESSONS:
        assert lesson.next is None or lesson.next in numbers[numbers.index(lesson.number) + 1 :]


def test_ids_and_functions_are_unique():
    names = [n for e in FACTS for n in (e.id, *e.was, e.function)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.title)
def test_every_exercise_of_a_toml_is_judged_by_python_in_the_same_order(lesson):
    judged = specs.of_lesson(lesson.number)
    assert [e.id for e in judged] == [e.id for e in lesson.exercises]
    for exercise, facts in zip(judged, lesson.exercises, strict=True):
        assert vars(facts).items() <= vars(exercise).items()


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.title)
def test_the_sources_say_what_the_toml_says(lesson):
    """Heading and minutes are repeated for the reader; what a cell imports is needed."""
    folder = ROOT / "sources" / lesson_name(lesson.number)
    texts = [(folder / name).read_text(encoding="utf-8") for name in ("lesson.py", "exercises.py")]
    for text in texts:
        assert f"\n# # {lesson.number:02} · {lesson.title}" in text
    assert f"**Time:** {lesson.minutes} minutes" in texts[0]
    asked = {e.label: e.minutes for e in lesson.exercises}
    unsaid = set(asked)
    for label, minutes in MINUTES.findall(texts[1]):
        of_it = [one for one in asked if one == label or one[:-1] == label]  # 6.4 is 6.4a and 6.4b
        assert sum(asked[one] for one in of_it) == int(minutes), label
        unsaid -= set(of_it)
    assert not unsaid
    drafts = any(e.draft for e in lesson.exercises)
    plain = [e.minutes for e in lesson.exercises if not e.id.endswith("star")]
    sums = {sum(plain), sum(e.minutes for e in lesson.exercises)}
    for text in texts:
        said = re.findall(r"(\d+) for (?:the|its)(?: \w+)? exercises?\b", text)
        said += re.findall(r"exercises?, (?:about )?(\d+) minutes", text)
        assert drafts or {int(minutes) for minutes in said} <= sums
    imported = re.findall(
        r"^(?:import|from) (numpy|torch|triton)\b", "\n".join(texts), re.MULTILINE
    )
    assert set(imported) <= set(lesson.needs)


def test_all_of_them_are_the_sum_of_the_lessons():
    assert [e.id for e in specs.EXERCISES] == [e.id for e in FACTS]


@pytest.mark.parametrize(
    "statement",
    [
        "from course_lib.cli import main; main(['list'])",
        "import course_lib; course_lib.progress()",
        "import course_lib; course_lib.hint('3.3')",
        "from course_lib.cli import main; main(['hint', '3.3'])",
    ],
)
def test_what_only_tells_facts_imports_no_spec(statement):
    assert imported(statement) == set()


def test_asking_for_an_exercise_imports_its_lesson_only():
    assert imported("from course_lib.specs import find; find('3.3')") == {"lesson_03"}


def imported(statement: str) -> set[str]:
    """Return the lessons whose Python a fresh interpreter has imported after ``statement``."""
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(re.findall(r"^course_lib\.specs\.(lesson_\d+)$", done.stdout, re.MULTILINE))


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((), ""),
        ((15,), "15"),
        ((8, 5, 6, 7), "05 to 08"),
        ((5, 6, 15), "05 to 06 and 15"),
        ((1, 3, 4, 9), "01, 03 to 04 and 09"),
    ],
)
def test_numbers_are_written_as_ranges(numbers, words):
    assert lessons.in_words(replace(LESSONS[0], number=n) for n in numbers) == words


def test_the_order_follows_next_and_forgets_nobody(monkeypatch):
    """An appendix (3 here) comes last; a lesson that is gone (9) ends the path."""
    leads = {0: 2, 1: None, 2: 4, 3: None, 4: 9}
    made = tuple(replace(LESSONS[0], number=n, next=to) for n, to in leads.items())
    monkeypatch.setattr(lessons, "all_lessons", lambda: made)
    assert [lesson.number for lesson in lessons.in_order()] == [0, 2, 4, 1, 3]


SUFFIXES = {".py", ".js", ".mjs", ".toml"}
ROOMS = (ROOT / room for room in ("course_lib", "tests", "benchmarks", ".ci"))
CODE = [
    *(file for room in ROOMS for file in room.rglob("*") if file.suffix in SUFFIXES),
    *(file for file in (ROOT / ".ci").iterdir() if not file.suffix and file.is_file()),
    ROOT / "Makefile",
    ROOT / "pyproject.toml",
]
WRITTEN_OUT = re.compile(
    r"\b0\d to \d\d\b"  # the lessons from one to another
    r"|(?:lesson|:02).*range\(\d+\)|\b0\\d|\[[01]-[1-8]\]"  # their numbers
    r"|\b(?:eight|nine|sixteen|seventeen) lessons",  # how many there are
    re.IGNORECASE,
)


@pytest.mark.parametrize(
    "text", ["Lessons 00 to 04", "('lesson', range(9))", r"(0\d)", "[1-8]", "Nine lessons, and"]
)
def test_the_pattern_below_sees_what_it_is_for(text):
    assert WRITTEN_OUT.search(text)


def test_no_code_writes_out_which_lessons_there_are():
    """They are data: a lesson that is added must not be searched for in code."""
    others = (*ROOT.glob("tests/submissions/**/*"), Path(__file__))
    assert len(CODE) > 200
    found = {
        (str(file.relative_to(ROOT)), match[0])
        for file in set(CODE) - set(others)
        for match in WRITTEN_OUT.finditer(file.read_text(encoding="utf-8"))
    }
    assert found == set()


TOML = """\
number = 3
part = "I"
title = "Small"
writes = "little"
needs = ["numpy"]
minutes = 5

[[exercise]]
id = "3.1"
function = "twice"
signature = "(x)"
title = "Twice"
minutes = 5
points = 2
hints = [
  '''one, which is so long that
  it has two lines''',
  "two",
  "three",
]
notice = "Addition is enough."
"""


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Return a function that makes one lesson.toml the whole course."""

    def make(text: str, folder: str = "lesson_03") -> tuple[lessons.Lesson, ...]:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lesson.toml").write_text(text, encoding="utf-8")
        monkeypatch.setattr(lessons, "FOLDER", tmp_path)
        monkeypatch.setattr(lessons, "all_lessons", lessons.all_lessons.__wrapped__)
        return lessons.all_lessons()

    return make


def test_line_breaks_in_a_text_only_fit_it_into_the_file(read):
    ((exercise,),) = (lesson.exercises for lesson in read(TOML))
    assert exercise.hints[0] == "one, which is so long that it has two lines"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("number = 3", "number = 4", r"its numbers are \[3, 4\]"),
        ("number = 3\n", "", "number"),
        ("minutes", "minuets", "minuets"),
        ('  "two",\n', "", "2 hints"),
        ("[[exercise]]", "[[exercise]", "line 8"),
    ],
)
def test_a_malformed_file_is_named_with_what_is_wrong(read, old, new, says):
    with pytest.raises(ValueError, match=rf"lesson_03/lesson\.toml: .*{says}"):
        read(TOML.replace(old, new, 1))


@pytest.mark.parametrize("name", ["7★", "7*", "7-star", "ex-7-star"])
def test_a_star_can_be_typed(name):
    assert lessons.find(name).id == "7-star"
