"""The exercises as data, one file per lesson: ids, functions, signatures, points, minutes."""

from __future__ import annotations

import difflib
import importlib
import pkgutil

from course_lib.judging.spec import Exercise


class UnknownExercise(LookupError):
    """No exercise has this id or function name."""

    def __str__(self) -> str:
        return str(self.args[0])


def _load() -> tuple[Exercise, ...]:
    found = (module.name for module in pkgutil.iter_modules(__path__))
    names = sorted(name for name in found if name.startswith("lesson_"))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(exercise for module in modules for exercise in module.EXERCISES)


EXERCISES: tuple[Exercise, ...] = _load()


def find(name: str) -> Exercise:
    """Return the exercise with this id ("7.1", "7★", "7-star", "ex-7-1") or function name.

    "7-star:SEED" is the seeded variant of 7★. Raises UnknownExercise with the nearest names.
    """
    if ":" in name:
        return _variant(name)
    wanted = name.strip().replace("★", "-star").removeprefix("ex-")
    for exercise in EXERCISES:
        if wanted in (exercise.id, exercise.id.replace(".", "-"), exercise.function):
            return exercise
    known = [known for e in EXERCISES for known in (e.id, e.function)]
    near = difflib.get_close_matches(wanted, known, n=2)
    raise UnknownExercise(
        f"No exercise is called {name!r}; "
        + (f"did you mean {' or '.join(near)}?" if near else "`course list` shows them all.")
    )


def _variant(name: str) -> Exercise:
    from course_lib.specs import variants

    try:
        return variants.exercise(name)
    except ValueError as problem:
        raise UnknownExercise(str(problem)) from None
