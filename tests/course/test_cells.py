"""Cells that draw or set up have at most ten lines: plotting stands in `course_lib/figures`."""

from __future__ import annotations

import ast
import re

import pytest
from conftest import ROOT

from course_lib.authoring import first_cell
from course_lib.authoring.percent import Cell, read_cells

SOURCES = sorted((ROOT / "sources").glob("[0-9]*/*.py"))
MOST = 10
DRAWS = re.compile(r"\bmatplotlib\b|\bplt\.|\bnew_figure\b|\bcourse_lib\.figures\b|\bshow\(")
PLAIN = (ast.Import, ast.ImportFrom, ast.Assign, ast.Expr)
EXEMPT = "definition"  # a tag: a student reads what this cell defines


def lines(source: str) -> int:
    return sum(bool(line.strip()) for line in source.splitlines())


def is_to_be_short(cell: Cell) -> bool:
    """Whether a cell draws, or only sets up: imports and plain assignments."""
    if cell.kind != "code" or EXEMPT in cell.metadata.get("tags", ()):
        return False
    body = ast.parse(cell.source).body
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    plain = all(isinstance(node, PLAIN) for node in body)
    return bool(DRAWS.search(cell.source)) or (plain and len(imports) > len(body) / 2)


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: f"{p.parent.name[:2]}-{p.stem}")
def test_cells_that_draw_or_set_up_are_short(source):
    short = [cell for cell in read_cells(source) if is_to_be_short(cell)]
    assert {c.slug: n for c in short if (n := lines(c.source)) > MOST} == {}


def test_the_first_cell_is_short():
    assert lines(first_cell.setup_source()) <= MOST


def test_no_lesson_plots_by_itself():
    """A figure is made by a named function; what a student may plot is up to them."""
    found = {str(s) for s in SOURCES if re.search(r"\bplt\b|\bmatplotlib\b", s.read_text())}
    assert found == set()


def test_the_rule_sees_plotting_and_set_up():
    assert is_to_be_short(Cell("a", "code", "import a\nimport b\nc = 1", 1))
    assert is_to_be_short(Cell("a", "code", "fig, ax = plt.subplots()\nax.plot([1])\nx = 1", 1))
    assert not is_to_be_short(Cell("a", "code", "def f():\n    return 1", 1))
    tagged = {"tags": [EXEMPT]}
    assert not is_to_be_short(Cell("a", "code", "plt.plot([1])", 1, tagged))
