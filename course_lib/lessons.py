"""The lessons, and what is asked in each: ``specs/lesson_NN/lesson.toml``, read once.

The only place for these facts: whoever lists, builds, teaches or grades lessons reads them here.
Nothing that computes is imported, so a list of all exercises costs a few milliseconds.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "specs"


class UnknownExercise(LookupError):
    """No exercise has this id or function name."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, kw_only=True)
class ExerciseFacts:
    """What people are told of an exercise. ``id`` is "3.3", "7-star" or, for a variant, "7-star:S".

    ``function`` is unique across lessons; all variants share one. ``was`` holds the ids under
    which an exercise stood before: progress made there counts here. A ``draft`` may have a small
    corpus still.
    """

    id: str
    function: str
    signature: str
    title: str
    minutes: int
    points: int
    hints: tuple[str, str, str]
    notice: str
    was: tuple[str, ...] = ()
    draft: bool = False

    @property
    def lesson(self) -> int:
        """The number of the lesson that this exercise belongs to."""
        return int(self.id.replace("-", ".").split(".")[0])

    @property
    def slug(self) -> str:
        """The cell id of the exercise: ``ex-3-3``, ``ex-7-star``, ``ex-7-star-SEED``."""
        return "ex-" + self.id.replace(".", "-").replace(":", "-")

    @property
    def label(self) -> str:
        """The id as people write it: ``3.3``, ``7★``."""
        return self.id.replace("-star", "★")


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One lesson: ``writes`` ends the sentence "you write …", ``minutes`` are for reading.

    ``needs`` holds "numpy", "torch" or "triton"; ``next`` is the number of the lesson that follows.
    """

    number: int
    part: str
    title: str
    writes: str
    needs: tuple[str, ...]
    minutes: int
    gpu_helps: bool = False
    next: int | None = None
    exercises: tuple[ExerciseFacts, ...] = ()


@cache
def all_lessons() -> tuple[Lesson, ...]:
    """Return every lesson, by number. Raises ValueError, naming the file, if one is malformed."""
    read = (_lesson(file) for file in FOLDER.glob("lesson_*/lesson.toml"))
    return tuple(sorted(read, key=lambda lesson: lesson.number))


def all_exercises() -> tuple[ExerciseFacts, ...]:
    """Return the facts of every exercise, lesson by lesson."""
    return tuple(exercise for lesson in all_lessons() for exercise in lesson.exercises)


def in_order() -> tuple[Lesson, ...]:
    """Return the lessons as they follow one another by ``next``, then those nobody leads to."""
    by_number = {lesson.number: lesson for lesson in all_lessons()}
    path = []
    following = min(by_number, default=None)
    while following in by_number:
        path.append(by_number.pop(following))
        following = path[-1].next
    return (*path, *by_number.values())


def moved() -> dict[str, str]:
    """Return old id -> id of today, for exercises that stood elsewhere before."""
    return {old: exercise.id for exercise in all_exercises() for old in exercise.was}


def in_words(lessons: Iterable[Lesson]) -> str:
    """Return the lessons' numbers for a sentence: "10 to 12", "11, 13 to 15 and 18"."""
    runs: list[list[int]] = []
    for number in sorted(lesson.number for lesson in lessons):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [f"{run[0]:02} to {run[-1]:02}" if run[1:] else f"{run[0]:02}" for run in runs]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def find(name: str) -> ExerciseFacts:
    """Return the exercise with this id ("7.1", "7★", "7*", "7-star", "ex-7-1") or function name.

    An id that it had before will do. Raises UnknownExercise with the nearest names.
    """
    wanted = re.sub("[★*]", "-star", name.strip()).removeprefix("ex-")
    for exercise in all_exercises():
        ids = (exercise.id, *exercise.was)
        if wanted in (*ids, *(id.replace(".", "-") for id in ids), exercise.function):
            return exercise
    known = [known for e in all_exercises() for known in (e.id, e.function)]
    near = difflib.get_close_matches(wanted, known, n=2)
    raise UnknownExercise(
        f"No exercise is called {name!r}; "
        + (f"did you mean {' or '.join(near)}?" if near else "`course list` shows them all.")
    )


def _lesson(file: Path) -> Lesson:
    try:
        facts = tomllib.loads(file.read_text(encoding="utf-8"))
        asked = tuple(_exercise(entry) for entry in facts.pop("exercise", []))
        lesson = Lesson(**facts | {"needs": tuple(facts["needs"]), "exercises": asked})
        numbers = {lesson.number, *(exercise.lesson for exercise in asked)}
        if numbers != {int(file.parent.name.removeprefix("lesson_"))}:
            raise ValueError(f"its numbers are {sorted(numbers)}")
    except (ValueError, TypeError, KeyError) as problem:
        raise ValueError(f"{file}: {problem}") from problem
    return lesson


def _exercise(entry: dict[str, Any]) -> ExerciseFacts:
    hints = tuple(_in_one_line(hint) for hint in entry["hints"])
    if len(hints) != 3:
        raise ValueError(f"exercise {entry.get('id')} has {len(hints)} hints, not three")
    texts = {key: _in_one_line(value) for key, value in entry.items() if isinstance(value, str)}
    return ExerciseFacts(**entry | texts | {"hints": hints, "was": tuple(entry.get("was", ()))})


def _in_one_line(text: str) -> str:
    """Return ``text`` without the line breaks that only fit it into the file."""
    return " ".join(text.split())
