"""Fold away the source of cells that ask, answer or draw: nobody reads an answer by scrolling.

What a cell calls decides, so that a new lesson needs no marks. Where the rule is wrong for a cell,
its marker says so: ``# %% slug folded=false``. Folding hides no secret: one click opens the source.

The questions stay in the cells, and are not loaded by id from somewhere else: what a reveal shows
is computed from the values of the notebook, so half of the answers could not move; a source would
no longer be read from top to bottom; and a notebook could meet questions of another version.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from course_lib.authoring.percent import Cell

MARK = "folded"
_TITLES = {
    "Quiz": "A question",
    "Predict": "A prediction",
    "reveal": "The answer",
    "room": "The room's answers",
    "draws": "A picture",
}
_DRAWS = re.compile(r"^(show|(draw|plot)(_\w+)?)$")


def folded(cell: Cell) -> Cell:
    """Return the cell with the metadata and the title that fold it, if it is one to fold.

    JupyterLab and Notebook 7 go by ``source_hidden`` and show the first line, Colab wants
    ``cellView`` *and* a title in the source, and `course html` looks for ``source_hidden``.
    """
    metadata = {key: value for key, value in cell.metadata.items() if key != MARK}
    title = folded_title(cell.source) if cell.kind == "code" else None
    if not cell.metadata.get(MARK, title is not None):
        return replace(cell, metadata=metadata)
    metadata |= {"jupyter": {"source_hidden": True}, "cellView": "form"}
    source = cell.source
    if not source.startswith("# @title "):  # not folded yet: a notebook may be made of a notebook
        source = f"# @title {title or 'The code of this cell'}\n{source}"
    return replace(cell, source=source, metadata=metadata)


def folded_title(source: str) -> str | None:
    """Return what a folded cell is called, None if it asks, answers and draws nothing."""
    try:
        called = _calls(ast.parse(source))
    except SyntaxError:  # a line for the shell, such as `!pip`
        return None
    return next((title for name, title in _TITLES.items() if name in called), None)


def _calls(tree: ast.AST) -> set[str]:
    """Return which names of `_TITLES` a cell calls; ``draws`` stands for all that draws."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = str(getattr(function, "id", getattr(function, "attr", "")))
        owner = getattr(getattr(function, "value", None), "id", "")
        found.add("draws" if owner == "plt" or _DRAWS.match(name) else name)
    return found
