"""The right programs that are rewritten: right submissions of the corpus, and the solutions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from corpus import corpus

from course_lib.authoring.percent import read_cells
from course_lib.handin import cells as handed_in
from course_lib.handin.course_file import CodeCell
from course_lib.specs import EXERCISES

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Program:
    """A right answer to an exercise. ``id`` is "7.4/plain", "7.4/solution"."""

    id: str
    exercise: str
    text: str
    needs_compiling: bool = False  # its place in the corpus is due to the compiler


def programs(exercise: str = "", lesson: int = 0) -> list[Program]:
    """Return every right program, of one exercise or of one lesson, plain ones first."""
    wanted = [
        e
        for e in EXERCISES
        if e.kind != "question" and exercise in ("", e.id) and lesson in (0, e.lesson)
    ]
    found = []
    for one in wanted:
        rights = [
            Program(f"{one.id}/{sample.name}", one.id, sample.text)
            for sample in corpus("right", one.id)
        ]
        rights.sort(key=lambda program: not program.id.endswith("/plain"))
        found += [*rights, *_solution(one)]
    return found


def _solution(exercise: object) -> Iterator[Program]:
    (folder,) = (ROOT / "sources").glob(f"{exercise.lesson:02}_*")  # type: ignore[attr-defined]
    text = handed_in.program(_cells(folder / "exercises.py"), exercise)  # type: ignore[arg-type]
    yield Program(f"{exercise.id}/solution", exercise.id, text)  # type: ignore[attr-defined]


@cache
def _cells(file: Path) -> list[CodeCell]:
    """Return the code cells of a lesson's source: reading it takes longer than all the rest."""
    return [CodeCell(cell.slug, cell.source) for cell in read_cells(file) if cell.kind == "code"]
