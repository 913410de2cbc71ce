"""Every committed notebook runs from top to bottom in a fresh kernel, in its own folder."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from conftest import ROOT
from nbclient import NotebookClient

from course_lib.lessons import all_lessons

LESSONS = sorted(path.parent.name for path in (ROOT / "sources").glob("*/lesson.py"))
EXERCISES = sorted(path.parent.name for path in (ROOT / "sources").glob("*/exercises.py"))
SECONDS = 120  # for one notebook, on two busy cores


@pytest.fixture(autouse=True)
def own_kernel(monkeypatch, tmp_path) -> None:
    """Run the kernel of this environment, with nobody's settings and a store of its own."""
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.delenv("JUPYTER_PATH", raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))


def run(folder: str, name: str) -> list[nbformat.NotebookNode]:
    """Run a notebook and return its cells; a cell that raises unexpectedly fails the test."""
    path = ROOT / folder / f"{name}.ipynb"
    before = course_files()
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=resources).execute()
    assert course_files() == before, "running a notebook wrote into the repository"
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    assert all(cell.execution_count for cell in code), "not every cell was run"
    return notebook.cells


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


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("name", LESSONS)
def test_lesson_runs(name):
    for cell in run("notebooks", name):
        errors = [o for o in cell.get("outputs", []) if o.output_type == "error"]
        assert errors == [], f"the cell {cell.id} raises"


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("name", EXERCISES)
def test_every_stub_is_not_attempted(name):
    """As shipped, Run All reaches the end and every check says that nothing was tried yet."""
    for cell in checks(run("exercises", name)):
        assert text(cell).startswith("CheckFailed: "), cell.id
        assert ": not attempted" in text(cell), cell.id


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("name", EXERCISES)
def test_every_solution_passes(name):
    for cell in checks(run("solutions", name)):
        assert ": passed" in text(cell), cell.id


def test_nothing_reaches_the_developers_own_progress(own_store):
    assert os.environ["COURSE_STORE"] == str(own_store)
