"""The exercises: facts in ``lesson_NN/lesson.toml``, and beside it the Python that judges them.

A lesson's Python is imported when one of its exercises is asked for: every module of its folder in
which an `Exercise`, or a tuple of them, has a name. ``EXERCISES`` holds all, for those who want
every one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from course_lib import lessons
from course_lib.judging.spec import Exercise
from course_lib.lessons import UnknownExercise

EXERCISES: tuple[Exercise, ...]

__all__ = ["EXERCISES", "UnknownExercise", "find", "of_lesson"]


def find(name: str) -> Exercise:
    """Return the exercise with this id ("7.1", "7★", "7-star", "ex-7-1") or function name.

    "7-star:SEED" is the seeded variant of 7★. Raises UnknownExercise with the nearest names.
    """
    if ":" in name:
        return _variant(name)
    facts = lessons.find(name)
    for exercise in of_lesson(facts.lesson):
        if exercise.id == facts.id:
            return exercise
    raise UnknownExercise(f"Exercise {facts.id} has a lesson.toml, but no Python that judges it.")


@cache
def of_lesson(number: int) -> tuple[Exercise, ...]:
    """Return the exercises of one lesson, as its facts are ordered; its Python is imported now."""
    package = f"{__name__}.lesson_{number:02}"
    names = [module.name for module in iter_modules(import_module(package).__path__)]
    made = {e.id: e for name in names for e in _made_in(f"{package}.{name}")}
    facts = (facts for facts in lessons.all_exercises() if facts.lesson == number)
    return tuple(made[one.id] for one in facts if one.id in made)


def _made_in(module: str) -> Iterator[Exercise]:
    for x in vars(import_module(module)).values():
        yield from (e for e in (x if isinstance(x, tuple) else (x,)) if isinstance(e, Exercise))


def __getattr__(name: str) -> Any:
    """Import every lesson's Python when ``EXERCISES`` is asked for."""
    if name != "EXERCISES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return tuple(e for lesson in lessons.all_lessons() for e in of_lesson(lesson.number))


def _variant(name: str) -> Exercise:
    from course_lib.specs import variants

    try:
        return variants.exercise(name)
    except ValueError as problem:
        raise UnknownExercise(str(problem)) from None
