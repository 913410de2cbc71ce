"""A lesson is read upwards, too: each cell runs again, the last first, and says the same.

Whoever scrolls up and runs a cell again must find there what it needs, under its name: one name
for one thing, or a cell makes what it needs.
"""

from __future__ import annotations

import re
from copy import deepcopy

import nbformat
import pytest
from conftest import ROOT

from course_lib.authoring.running import client

LESSONS = sorted(path.parent.name for path in (ROOT / "sources").glob("*/lesson.py"))
SECONDS = 240
WIDGET = "application/vnd.jupyter.widget-view+json"
DRAWN = "a check draws its inputs anew"
CLOCK = "this machine is measured anew"
ERROR = "the cell raises"
OTHERS = {  # lesson -> cells that say something else the second time, and why
    "00": {"try-view-checked": DRAWN},
    "01": {"peak-memory": CLOCK},
    "08": {"live": CLOCK},
}


def run_twice(name: str) -> list[tuple[nbformat.NotebookNode, nbformat.NotebookNode]]:
    """Run a lesson's code in order, then from the last cell to the first; return both runs of each.

    The first cell, which only prepares the notebook, runs once.
    """
    book = nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4)
    setup, *cells = (c for c in book.cells if c.cell_type == "code" and c.source.strip())
    again = deepcopy(cells)
    for cell in again:
        cell.id += "-again"
    whole = nbformat.v4.new_notebook(cells=[setup, *cells, *reversed(again)])
    running = client(whole, ROOT / "notebooks", SECONDS)
    running.allow_errors = True
    running.execute()
    return list(zip(cells, again, strict=True))


def said(cell: nbformat.NotebookNode) -> str:
    """Return what a cell prints and shows as text; neither widgets nor where an object lies."""
    found = []
    for output in cell.outputs:
        if output.output_type == "error":
            found.append(f"{ERROR} {output.ename}: {output.evalue}")
        elif output.output_type == "stream" and output.name == "stdout":
            found.append(output.text)
        elif "data" in output and WIDGET not in output.data:
            found.append(output.data.get("text/plain", ""))
    return re.sub(r" at 0x[0-9a-f]+|\s+", " ", " ".join(found))


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.usefixtures("own_kernel")
@pytest.mark.parametrize("name", LESSONS)
def test_every_cell_runs_again_from_the_last_to_the_first(name):
    known = OTHERS.get(name[:2], {})
    pairs = {one.id: (said(one), said(two)) for one, two in run_twice(name)}
    assert set(known) <= set(pairs), "a cell of OTHERS is no more"
    changed = {i: texts for i, texts in pairs.items() if texts[0] != texts[1] and i not in known}
    print(*(f"{i}\n  {one[-300:]}\n  {two[-300:]}" for i, (one, two) in changed.items()), sep="\n")
    assert list(changed) == []
    assert [i for i in known if ERROR in pairs[i][1]] == []
