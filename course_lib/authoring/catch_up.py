"""``course catch-up``: put the previous step's solution in place, and keep what was there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from course_lib.authoring.build import NAME
from course_lib.authoring.notebook import EXERCISE, SOLUTION
from course_lib.authoring.regions import BEGIN, END
from course_lib.handin.course_file import (
    FileProblem,
    notebook_of,
    read_text,
    source_of,
    with_source,
)
from course_lib.lessons import ExerciseFacts


def previous_step(spec: ExerciseFacts, specs: Sequence[ExerciseFacts]) -> ExerciseFacts:
    """Return the exercise before ``spec`` in its lesson; FileProblem if it is the first one."""
    lesson = [other for other in specs if other.lesson == spec.lesson]
    at = [other.id for other in lesson].index(spec.id)
    if at == 0:
        raise FileProblem(
            f"{spec.id} is the first exercise of lesson {spec.lesson:02}: no step comes before it."
        )
    return lesson[at - 1]


def catch_up(root: Path, step: ExerciseFacts) -> tuple[Path, Path, str] | None:
    """Write the solution of ``step`` into its cell in exercises/, every other byte as it was.

    Returns the notebook, the file that keeps the replaced text, and this text; None if the
    solution is there already. Raises FileProblem if a notebook or its cell is missing.
    """
    notebook = lesson_notebook(root, EXERCISE, step)
    text, index, kept = _find(notebook, step)
    *_, solved = _find(lesson_notebook(root, SOLUTION, step), step)
    solution = "\n".join(line for line in solved.split("\n") if line.strip() not in {BEGIN, END})
    if kept == solution:
        return None
    backup = _free_name(notebook.parent, f"my_{step.function}_before_catch_up")
    backup.write_text(kept + "\n", encoding="utf-8")
    notebook.write_bytes(with_source(text, index, solution).encode("utf-8"))
    return notebook, backup, kept


def lesson_notebook(root: Path, folder: str, spec: ExerciseFacts) -> Path:
    """Return the notebook of the exercise's lesson in ``folder``; FileProblem if there is none."""
    here = sorted((root / folder).glob(f"{spec.lesson:02}_*.ipynb"))
    found = [path for path in here if NAME.match(path.stem)]  # not a copy of JupyterLab's
    if not found:
        raise FileProblem(f"{folder}/ has no notebook of lesson {spec.lesson:02}.")
    return found[0]


def _find(notebook: Path, spec: ExerciseFacts) -> tuple[str, int, str]:
    """Return the notebook's text, the index of the exercise's cell, and the cell's source."""
    text = read_text(notebook)
    for index, cell in enumerate(notebook_of(notebook, text)["cells"]):
        if cell.get("id") == spec.slug:
            return text, index, source_of(cell)
    raise FileProblem(f"{notebook}: there is no cell {spec.slug!r} any more.")


def _free_name(folder: Path, stem: str) -> Path:
    number, path = 1, folder / f"{stem}.py"
    while path.exists():
        number += 1
        path = folder / f"{stem}_{number}.py"
    return path
