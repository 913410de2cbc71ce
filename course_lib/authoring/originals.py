"""What the course gave: an exercise's blank and its solution, wherever this copy has them.

A clone has ``solutions/``; an installed course brings it along beside the package; the copy for
students has the blanks only. A blank is made of the solution, as `course build` makes it.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from course_lib import lessons
from course_lib.authoring import first_cell
from course_lib.authoring.build import FOLDERS, NAME
from course_lib.authoring.notebook import EXERCISE, SOLUTION, render
from course_lib.authoring.percent import Cell
from course_lib.authoring.regions import BEGIN, END
from course_lib.handin.course_file import FileProblem, notebook_of, read_text, source_of
from course_lib.lessons import ExerciseFacts

GIVEN_BLANKS = ".given"  # in the copy for students: the exercises as they were
_PACKAGE = "flashattention-course"


def solution(spec: ExerciseFacts) -> str:
    """Return the solution of an exercise as a student would have typed it.

    Raises FileProblem if this copy of the course has no solutions.
    """
    notebook = _solved(spec.lesson)
    if notebook is None:
        raise FileProblem(
            "This copy of the course has no folder solutions/: ask the person who gave it to you."
        )
    _, text = cell_of(notebook, read_text(notebook), spec)
    return "\n".join(line for line in text.split("\n") if line.strip() not in {BEGIN, END})


def blank_notebook(number: int) -> tuple[str, str]:
    """Return name and text of a lesson's exercises as they were given; FileProblem without them."""
    solved = _solved(number)
    if solved is not None:
        return solved.name, _blanked(solved, number)
    for root in _roots():
        if (root / GIVEN_BLANKS / EXERCISE).is_dir():
            given = lesson_notebook(root / GIVEN_BLANKS, EXERCISE, number)
            return given.name, read_text(given)
    raise FileProblem("This copy of the course does not hold the exercises as they were given.")


def lesson_notebook(root: Path, folder: str, number: int) -> Path:
    """Return the notebook of a lesson in a folder of the course; FileProblem if there is none."""
    here = sorted((root / folder).glob(f"{number:02}_*.ipynb"))
    found = [path for path in here if NAME.match(path.stem)]  # not a copy of JupyterLab's
    if not found:
        raise FileProblem(f"{folder}/ has no notebook of lesson {number:02}.")
    return found[0]


def cell_of(notebook: Path, text: str, spec: ExerciseFacts) -> tuple[int, str]:
    """Return index and source of an exercise's cell in the ``text`` of a notebook."""
    for index, cell in enumerate(notebook_of(notebook, text)["cells"]):
        if spec.slug in (cell.get("id"), cell.get("metadata", {}).get("id")):  # Colab's place
            return index, source_of(cell)
    raise FileProblem(f"{notebook}: there is no cell {spec.slug!r} any more.")


def _blanked(solved: Path, number: int) -> str:
    """Return the notebook of blanks that belongs to a notebook of solutions."""
    specs = [spec for spec in lessons.all_exercises() if spec.lesson == number]
    raw = notebook_of(solved, read_text(solved))["cells"]
    cells = [
        Cell(cell["id"], cell["cell_type"], source_of(cell), 1, _authored(cell["metadata"]))
        for cell in raw
        if cell["id"] != first_cell.SLUG
    ]
    title = cells[0].source.split("\n")  # heading, nothing, the row of links, and what follows
    cells[0] = Cell(cells[0].slug, cells[0].kind, "\n".join(title[:1] + title[3:]), 1)
    siblings = [f for f in FOLDERS if f == SOLUTION or f"/{f}/" in title[2]]
    named = solved.parent.parent / "sources" / solved.stem / "exercises.py"
    return render(named, cells, EXERCISE, siblings, specs)


def _authored(metadata: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in metadata.items() if key != "nbgrader"}


def _solved(number: int) -> Path | None:
    """Return the notebook of a lesson's solutions; None if this copy of the course has none."""
    for root in _roots():
        if (root / SOLUTION).is_dir():
            return lesson_notebook(root, SOLUTION, number)
    return None


def _roots() -> Iterator[Path]:
    """Yield the folders in which the course may stand: around here, at the package, installed."""
    here = Path.cwd()
    yield from (here, *here.parents, Path(__file__).resolve().parents[2])
    if (share := _installed()) is not None:
        yield share


@cache
def _installed() -> Path | None:
    """Return the folder of what a wheel of the course has put beside the package."""
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = (file for file in files if file.match(f"{_PACKAGE}/{SOLUTION}/*.ipynb"))
    return next((Path(str(file.locate())).resolve().parents[1] for file in found), None)
