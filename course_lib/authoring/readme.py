"""README's table of lessons, written from every ``lesson.toml`` between two markers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from course_lib import lessons
from course_lib.authoring.percent import BuildError
from course_lib.lessons import Lesson

BEGIN = "<!-- lessons: `course build` writes this table -->"
END = "<!-- end of the lessons -->"
SOURCE = "course_lib/specs/lesson_NN/lesson.toml"
_WORDS = {"numpy": "NumPy", "torch": "PyTorch", "triton": "Triton"}


def written(file: Path) -> str:
    """Return the text of README with its table as it should be; BuildError without markers."""
    text = file.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise BuildError(file, 1, f"the table of lessons stands between {BEGIN} and {END}")
    return before + begin + "\n" + _table(lessons.all_lessons()) + end + after


def _table(listed: Iterable[Lesson]) -> str:
    rows = ["| | lesson | you write | needs |", "|---|---|---|---|"]
    reading = practice = 0
    part = "I"  # the first part needs no row of its own
    for lesson in listed:
        if lesson.part != part:
            part = lesson.part
            rows.append(f"| **{part}** | | | |")
        rows.append(f"| {lesson.number:02} | {lesson.title} | {lesson.writes} | {_needs(lesson)} |")
        reading += lesson.minutes
        practice += sum(exercise.minutes for exercise in lesson.exercises)
    hours = f"About {reading / 60:.0f} hours of lessons and {practice / 60:.0f} of exercises."
    return "\n".join([*rows, "", hours, ""])


def _needs(lesson: Lesson) -> str:
    words = ", ".join(_WORDS[name] for name in lesson.needs)
    return words + (" (a GPU helps)" if lesson.gpu_helps else "")
