"""Make a notebook of cells: header links, the setup cell, ids, metadata, one way to write JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from course_lib.authoring import first_cell, nbgrader, regions
from course_lib.authoring.folding import folded, optional_closed
from course_lib.authoring.mirror import check_slug
from course_lib.authoring.percent import BuildError, Cell
from course_lib.authoring.repository import colab_link, colab_page
from course_lib.lessons import ExerciseFacts

LESSON, EXERCISE, SOLUTION = "notebooks", "exercises", "solutions"
_WORDS = {LESSON: "the lesson", EXERCISE: "its exercises", SOLUTION: "the solutions"}
# what stands at the top of the exercises
_HAND_IN = (
    "On Colab, keep your work with *File > Save a copy in Drive*. To hand in: this file; on Colab\n"
    "*File > Download > Download .ipynb*."
)
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def render(
    file: Path,
    cells: Sequence[Cell],
    folder: str,
    siblings: Sequence[str],
    specs: Sequence[ExerciseFacts],
) -> str:
    """Return the JSON text of the notebook ``folder/NN_name.ipynb``, made of ``cells`` of ``file``.

    ``siblings`` are the folders in which a notebook of the same name stands.
    """
    opening = _with_links(file, cells, folder, siblings)
    setup = folded(first_cell.setup_cell(opening.line))
    if any(cell.slug == first_cell.SLUG for cell in cells):
        raise BuildError(file, 1, f"the cell {first_cell.SLUG!r} is written by the build")
    if folder == LESSON:
        cells = optional_closed(cells)
    body = [_prepared(file, cell, folder) for cell in cells[1:]]
    return assembled([opening, setup, *body], folder, specs)


def assembled(cells: Sequence[Cell], folder: str, specs: Sequence[ExerciseFacts]) -> str:
    """Return the JSON text of a notebook of ``cells`` as they are, with ids and metadata."""
    extra = _exercise_metadata(specs, folder)
    raw = [_raw_cell(cell, extra) for cell in cells]
    return to_json({"cells": raw, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5})


def to_json(notebook: Mapping[str, Any]) -> str:
    """Return ``notebook`` as Jupyter writes it: sorted keys, indent 1, UTF-8, final newline."""
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _with_links(file: Path, cells: Sequence[Cell], folder: str, siblings: Sequence[str]) -> Cell:
    title = f"# {file.parent.name[:2]} · "
    if not cells or cells[0].slug != "title" or not cells[0].source.startswith(title):
        line = cells[0].line if cells else 1
        raise BuildError(file, line, f"the first cell is '# %% title [markdown]' with '{title}…'")
    heading, _, rest = cells[0].source.partition("\n")
    name = f"{file.parent.name}.ipynb"
    links = [_link(f, name) for f in siblings if f != folder]
    row = " · ".join([colab_link(f"{folder}/{name}"), *links])
    lines = [heading, "", row, *(["", _HAND_IN] if folder == EXERCISE else []), rest]
    return replace(cells[0], source="\n".join(lines).rstrip("\n"))


def _link(folder: str, name: str) -> str:
    """Return the way to a sibling twice: the file beside this one, and, on Colab, its address."""
    return f"[{_WORDS[folder]}](../{folder}/{name}) ([Colab]({colab_page(f'{folder}/{name}')}))"


def _prepared(file: Path, cell: Cell, folder: str) -> Cell:
    blanked = regions.blank(file, cell)
    if folder == LESSON and blanked != cell.source:
        raise BuildError(file, cell.line, "a lesson has no solution regions: its exercises do")
    if blanked != cell.source:  # what a student writes stays open, whatever it calls
        return replace(cell, source=blanked) if folder == EXERCISE else cell
    return folded(cell)


def _exercise_metadata(specs: Sequence[ExerciseFacts], folder: str) -> dict[str, Any]:
    """Return a function of the cell for each graded slug; lessons have none."""
    if folder == LESSON:
        return {}
    tags = {"tags": ["raises-exception"]} if folder == EXERCISE else {}
    found: dict[str, Any] = {}
    for spec in specs:
        found[spec.slug] = lambda cell: {"nbgrader": nbgrader.solution_metadata(cell.slug)}
        found[check_slug(spec)] = lambda cell, points=spec.points: {
            "nbgrader": nbgrader.check_metadata(cell.slug, cell.source, points),
            **tags,
        }
    return found


def _raw_cell(cell: Cell, extra: Mapping[str, Any]) -> dict[str, Any]:
    metadata = dict(cell.metadata)
    if cell.slug in extra:
        added = extra[cell.slug](cell)
        if tags := [*metadata.get("tags", []), *added.pop("tags", [])]:
            added["tags"] = tags
        metadata |= added
    raw: dict[str, Any] = {
        "cell_type": cell.kind,
        "id": cell.slug,
        "metadata": metadata,
        "source": cell.source.splitlines(keepends=True),
    }
    if cell.kind == "code":
        raw |= {"execution_count": None, "outputs": []}
    return raw
