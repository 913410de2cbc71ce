"""Fold away the source of cells that ask, answer or draw: nobody reads an answer by scrolling.

What a cell calls decides, so that a new lesson needs no marks. Where the rule is wrong for a cell,
its marker says so: ``# %% slug folded=false``. Folding hides no secret: one click opens the source.
A section under a heading that begins with ``## Optional`` is closed, and so is all code in it.

The questions stay in the cells, and are not loaded by id from somewhere else: what a reveal shows
is computed from the values of the notebook, so half of the answers could not move; a source would
no longer be read from top to bottom; and a notebook could meet questions of another version.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from textwrap import shorten

from course_lib.authoring.percent import Cell

MARK = "folded"
_COLLAPSED = "jp-MarkdownHeadingCollapsed"
_SECTION = re.compile(r"^##? (.*)", re.MULTILINE)
_LONGEST = 90  # characters of a title: one line, also beside JupyterLab's list of files
_SHORTEST = 20  # "And on a GPU?" alone says nothing
_SENTENCES = re.compile(r"(?<=[.:?!]) (?=[^ ]*[A-Z`])")
_TITLES = {
    "Quiz": "A question",
    "Predict": "A prediction",
    "reveal": "The answer",
    "room": "The room's answers",
    "draws": "A picture",
}
_QUESTION = {"Quiz": 0, "Predict": 1}  # which argument is the question
_DRAWS = re.compile(r"^(show|(draw|plot)(_\w+)?)$")


def optional_closed(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells with optional sections closed: their headings collapsed, their code folded.

    JupyterLab and Notebook 7 hide what is below a collapsed heading, up to the next of its level;
    elsewhere the folded code is what keeps the section short.
    """
    found, optional = [], False
    for cell in cells:
        if cell.kind == "markdown" and (headings := _SECTION.findall(cell.source)):
            optional = headings[-1].startswith("Optional")
            if optional:
                cell = replace(cell, metadata={**cell.metadata, _COLLAPSED: True})
        elif optional and cell.kind == "code":
            cell = replace(cell, metadata={MARK: True, **cell.metadata})
        found.append(cell)
    return found


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
    """Return what a folded cell is called, None if it asks, answers and draws nothing.

    What it asks is in its title; for a picture an author writes ``# @title A picture: …``.
    """
    try:
        called = _calls(ast.parse(source))
    except SyntaxError:  # a line for the shell, such as `!pip`
        return None
    name = next((name for name in _TITLES if name in called), None)
    if name is None:
        return None
    asked = _asked(called[name]) if name in _QUESTION else ""
    return f"{_TITLES[name]}: {asked}" if asked else _TITLES[name]


def _asked(call: ast.Call) -> str:
    """Return the question of a quiz or a prediction, as much of it as a line holds."""
    place = _QUESTION[_name(call)]
    node = call.args[place] if len(call.args) > place else None
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return ""
    words = " ".join(node.value.split())
    last = _SENTENCES.split(words)[-1]
    if len(words) > _LONGEST and len(last) >= _SHORTEST:  # the cell tells what stands before it
        words = last
    return shorten(words, _LONGEST, placeholder=" …")


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


def _calls(tree: ast.AST) -> dict[str, ast.Call]:
    """Return what a cell calls, name -> its first call; ``draws`` stands for all that draws."""
    found: dict[str, ast.Call] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _name(node)
        owner = getattr(getattr(node.func, "value", None), "id", "")
        found.setdefault("draws" if owner == "plt" or _DRAWS.match(name) else name, node)
    return found
