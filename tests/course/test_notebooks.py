"""Every committed notebook runs from top to bottom, in its own folder.

A lesson and its exercises share a kernel, which is fresh for the lesson: to start one and import
torch in it costs more than most of them compute. The solutions' answers are checked by other tests,
too (`tests/specs`). `make test` runs one notebook of solutions and six lessons, the sweep the rest.
"""

from __future__ import annotations

import ast
import os
import re
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from conftest import ROOT
from drawn import drawn, swept

from course_lib.authoring.running import client
from course_lib.lessons import all_lessons

LESSONS = sorted(path.parent.name for path in (ROOT / "sources").glob("*/lesson.py"))
EXERCISES = sorted(path.parent.name for path in (ROOT / "sources").glob("*/exercises.py"))
SECONDS = 120  # for one notebook, on two busy cores
LEAK = re.compile(r"<matplotlib\.|\bText\(|Container object of")  # what a plot's last line returns


@pytest.fixture(autouse=True)
def _same_draws(monkeypatch):
    """Draw the same in every run: `make verdicts ARGS=--seeds=20` asks what other draws do."""
    monkeypatch.setenv("COURSE_SEED", "4711")


def run(name: str, *folders: str) -> list[list[nbformat.NotebookNode]]:
    """Run notebooks of one name, one after the other in a kernel, and return the cells of each.

    Each begins in its own folder and without the names of the one before; a cell that raises
    unexpectedly fails the test.
    """
    before = course_files()
    books = [nbformat.read(ROOT / folder / f"{name}.ipynb", as_version=4) for folder in folders]
    whole = deepcopy(books[0])
    for folder, book in zip(folders[1:], books[1:], strict=True):
        whole.cells.append(nbformat.v4.new_code_cell(f"%cd -q {ROOT / folder}\n%reset -f"))
        whole.cells += book.cells
    client(whole, ROOT / folders[0], SECONDS).execute()
    assert course_files() == before, "running a notebook wrote into the repository"
    code = [cell for cell in whole.cells if cell.cell_type == "code" and cell.source.strip()]
    assert all(cell.execution_count for cell in code), "not every cell was run"
    books[0].cells = whole.cells[: len(books[0].cells)]
    return [book.cells for book in books]


def course_files() -> set[Path]:
    """Return what stands where a notebook might leave something."""
    folders = (ROOT, *(ROOT / name for name in ("notebooks", "exercises", "solutions")))
    return {path for folder in folders for path in folder.iterdir() if path.name[0] != "."}


def text(cell: nbformat.NotebookNode) -> str:
    """Return all that a cell's outputs say, as plain text."""
    said = []
    for output in cell.outputs:
        if output.output_type == "stream":
            said.append(output.text)
        elif output.output_type == "error":
            said.append(f"{output.ename}: {output.evalue}")
        else:
            said.append(output.get("data", {}).get("text/plain", ""))
    return "\n".join(said)


def checks(cells: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    found = [cell for cell in cells if cell.id.startswith("check-")]
    assert found, "found no check cell"
    return found


def test_the_arc_is_complete():
    """Every lesson.toml has its lesson and its exercises, and no source lacks a lesson.toml."""
    numbers = [f"{lesson.number:02}" for lesson in all_lessons()]
    assert numbers
    assert [name[:2] for name in LESSONS] == [name[:2] for name in EXERCISES] == numbers
    assert LESSONS == EXERCISES


@pytest.mark.parametrize("name", LESSONS)
def test_no_object_is_shown_by_two_cells(name):
    """A later cell changes it, and after Run All the earlier one shows the change too soon."""
    shown: dict[str, str] = {}
    for cell in nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4).cells:
        if cell.cell_type != "code" or cell.id == "setup":
            continue
        body = ast.parse(cell.source).body
        for node in body:
            if isinstance(node, ast.Assign):  # a new object under the name
                for target in node.targets:
                    shown.pop(getattr(target, "id", ""), None)
        if isinstance(body[-1], ast.Expr) and isinstance(body[-1].value, ast.Name):
            at = shown.setdefault(body[-1].value.id, cell.id)
            assert at == cell.id, f"{at} and {cell.id} show {body[-1].value.id}"


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.usefixtures("own_kernel")
@pytest.mark.parametrize("name", LESSONS)
@pytest.mark.few(6)
def test_a_lesson_runs_and_every_stub_is_not_attempted(name):
    """No cell of a lesson raises, and none ends in the repr of something drawn.

    As shipped, Run All of the exercises reaches the end, and every check says that nothing was
    tried yet.
    """
    lesson, stubs = run(name, "notebooks", "exercises")
    for cell in lesson:
        outputs = cell.get("outputs", [])
        assert [o for o in outputs if o.output_type == "error"] == [], f"the cell {cell.id} raises"
        said = [o.data.get("text/plain", "") for o in outputs if o.output_type == "execute_result"]
        assert not any(LEAK.search(text) for text in said), f"the cell {cell.id} says {said}"
    for cell in checks(stubs):
        assert text(cell).startswith("CheckFailed: "), cell.id
        assert ": not attempted" in text(cell), cell.id


def solved(name: str) -> str:
    return (ROOT / "solutions" / f"{name}.ipynb").read_text("utf-8")


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.usefixtures("own_kernel")
@pytest.mark.parametrize("name", swept(LESSONS, drawn(LESSONS, solved)))
def test_every_solution_passes(name):
    (cells,) = run(name, "solutions")
    for cell in checks(cells):
        assert ": passed" in text(cell), cell.id


def test_nothing_reaches_the_developers_own_progress(own_store):
    assert os.environ["COURSE_STORE"] == str(own_store)
