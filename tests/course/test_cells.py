"""What cells are like: those that draw or set up are short, and what is used was seen made.

Plotting stands in `course_lib/figures`; a cell in sight uses no name that a folded one makes.
"""

from __future__ import annotations

import ast
import re
import symtable

import pytest
from conftest import ROOT

from course_lib.authoring import first_cell
from course_lib.authoring.folding import folded
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


def names(source: str) -> tuple[set[str], set[str]]:
    """Return the notebook's names that a cell uses, also in its functions, and those it makes."""
    top = symtable.symtable(source, "cell", "exec")
    uses = {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    makes = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    inner = top.get_children()
    while inner:
        table = inner.pop()
        uses |= {s.get_name() for s in table.get_symbols() if s.is_global()}
        inner += table.get_children()
    return uses, makes


def unseen(cells: list[Cell]) -> list[str]:
    """Return the names that a cell in sight uses and a folded cell made last, one line each."""
    found, made_by = [], {}  # name -> the folded cell that made it
    for cell in cells:
        uses, makes = names(cell.source)
        hidden = "jupyter" in folded(cell).metadata
        if not hidden:
            wanted = sorted(uses & made_by.keys() - makes)
            found += [f"{cell.slug} uses {name} of {made_by[name]}" for name in wanted]
        made_by = {name: slug for name, slug in made_by.items() if name not in makes}
        made_by |= dict.fromkeys(makes, cell.slug) if hidden else {}
    return found


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: f"{p.parent.name[:2]}-{p.stem}")
def test_what_a_cell_in_sight_uses_was_made_in_sight(source):
    assert unseen([cell for cell in read_cells(source) if cell.kind == "code"]) == []


def test_the_rule_sees_what_only_a_folded_cell_makes():
    """Also inside a function; and what is made again in sight, was seen."""
    fold = Cell("a", "code", "import math\nx = y = 1\np.reveal(x)", 1)
    use = Cell("b", "code", "def f(z):\n    return math.pi * x + z\nprint(y)", 1)
    assert unseen([fold, use]) == [f"b uses {name} of a" for name in ("math", "x", "y")]
    assert unseen([fold, Cell("c", "code", "import math\nx, y = 1, 2", 1), use]) == []
    assert unseen([use, fold]) == []
