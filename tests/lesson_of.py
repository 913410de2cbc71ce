"""Which lessons a test concerns: what its file, or a parameter of it, is named after.

A file ``test_lesson_07.py``; a notebook ``07_name``, a number called ``lesson``; an exercise, its
id, its function, a file of its submissions.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any


def lessons_of(item: Any) -> set[int]:
    """Return the numbers of the lessons that a collected test concerns."""
    found = _named(item.path.stem.removeprefix("test_"))
    for name, value in getattr(getattr(item, "callspec", None), "params", {}).items():
        found |= {value} if name == "lesson" and isinstance(value, int) else _of(value)
    return found


def _of(value: Any) -> set[int]:
    if isinstance(value, str | Path):
        parts = Path(value).parts
        return set().union(*(_named(part) | _of_exercise(part) for part in parts))
    if isinstance(value, tuple | list):
        return set().union(*map(_of, value))
    lesson = getattr(value, "lesson", None)
    return {lesson} if isinstance(lesson, int) else set()


def _named(text: str) -> set[int]:
    found = re.match(r"(?:lesson_)?(\d\d)(?:_|$)", text)
    return {int(found[1])} if found else set()


def _of_exercise(text: str) -> set[int]:
    return {lesson for name, lesson in _exercises() if text == name}


@cache
def _exercises() -> list[tuple[str, int]]:
    from course_lib.specs import EXERCISES

    return [(name, e.lesson) for e in EXERCISES for name in (e.id, e.function)]
