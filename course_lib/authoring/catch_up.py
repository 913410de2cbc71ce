"""Put a solution (`course catch-up`) or a blank (`course reset`) in place; keep what was there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from course_lib.authoring.originals import blank_notebook, cell_of, solution
from course_lib.handin.course_file import FileProblem, read_text, with_source
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


def catch_up(notebook: Path, step: ExerciseFacts) -> tuple[Path, str] | None:
    """Write the solution of ``step`` into its cell of a notebook, every other byte as it was.

    Returns the file that keeps the replaced text, and this text; None if the solution is there
    already. Raises FileProblem if a notebook or its cell is missing.
    """
    return _replace(notebook, step, solution(step), f"my_{step.function}_before_catch_up")


def reset_cell(notebook: Path, spec: ExerciseFacts) -> Path | None:
    """Write the blank of ``spec`` into its cell, every other byte as it was.

    Returns the file that keeps the replaced text, None if the blank is there already. Raises
    FileProblem if a notebook or its cell is missing.
    """
    name, text = blank_notebook(spec.lesson)
    _, blank = cell_of(Path(name), text, spec)
    done = _replace(notebook, spec, blank, f"my_{spec.function}_{_today()}")
    return done[0] if done else None


def reset_notebook(folder: Path, number: int) -> tuple[Path, Path | None]:
    """Write a lesson's exercises into ``folder`` as they were given.

    Returns the notebook and the file that keeps what was there, None if that was the same or none.
    """
    name, text = blank_notebook(number)
    notebook, kept = folder / name, None
    if notebook.exists() and notebook.read_bytes() != text.encode():
        kept = _free_name(folder, f"my_{notebook.stem}_{_today()}", ".ipynb")
        notebook.rename(kept)
    notebook.write_bytes(text.encode())
    return notebook, kept


def _replace(
    notebook: Path, spec: ExerciseFacts, source: str, keep_as: str
) -> tuple[Path, str] | None:
    """Write ``source`` into the exercise's cell; return where the old text is kept, and this."""
    text = read_text(notebook)
    index, mine = cell_of(notebook, text, spec)
    if mine == source:
        return None
    kept = _free_name(notebook.parent, keep_as, ".py")
    kept.write_text(mine + "\n", encoding="utf-8")
    notebook.write_bytes(with_source(text, index, source).encode("utf-8"))
    return kept, mine


def _today() -> str:
    return datetime.now().strftime("%Y-%m-%d")


def _free_name(folder: Path, stem: str, suffix: str) -> Path:
    number, path = 1, folder / f"{stem}{suffix}"
    while path.exists():
        number += 1
        path = folder / f"{stem}_{number}{suffix}"
    return path
