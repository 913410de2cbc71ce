"""All widgets in a real JupyterLab and a real Notebook 7: run all cells, move, step, type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from widgets.lab import run_all, run_command, serve, write_notebook

CELLS = {
    "HBMAccountant": "accountant = HBMAccountant(); accountant",
    "KVCacheCalculator": "KVCacheCalculator()",
    "Predict": "p = Predict('lab', 'How many times?', unit='x'); p",
    "Quiz": "Quiz('Which?', [('a', True, 'Because.'), ('b', False, 'No.')])",
    "RooflineChart": "RooflineChart()",
    "SramBudget": "SramBudget()",
    "TileSchedule": "TileSchedule(mask='causal')",
    "link": "[markdown] See [the notes](#fac-stepper-notes) and [the grid](#fac-schedule-grid).",
    "TileStepper": "ipywidgets.VBox([TileStepper.by_hand([[1, 3], [2, 5]], [[10, 20], [30, 40]])])",
}
WIDGETS = len(CELLS) - 1
POINTED = "() => document.querySelector('.fac-pointed')?.dataset.facPart"


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """A notebook with one cell a widget."""
    write_notebook(tmp_path / "widgets.ipynb", list(CELLS.values()))
    return tmp_path / "widgets.ipynb"


def open_page(chromium: Any, app: str, wrong: list[str]) -> Any:
    """Note what the page raises; Notebook 7 raises at its own start, so there only our modules'."""
    page = chromium.new_context(viewport={"width": 1280, "height": 5000}).new_page()
    ours = lambda error: app == "lab" or "blob:" in (error.stack or "")  # noqa: E731
    page.on("pageerror", lambda error: ours(error) and wrong.append(str(error)))
    return page


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("app", ["lab", "notebook"])
def test_every_widget_lives_in_jupyter(chromium, notebook, app):
    """No error, keys stay in the widget, Python hears of it, links of the prose find the parts."""
    pytest.importorskip({"lab": "jupyterlab", "notebook": "notebook"}[app])
    wrong: list[str] = []
    with serve(notebook, app) as address:
        page = open_page(chromium, app, wrong)
        run_all(page, address, WIDGETS)

        seek = page.get_by_label("Step", exact=True).last
        seek.focus()
        for key in ("b", "End", "ArrowLeft"):  # `b` would insert a cell, arrows would leave it
            page.keyboard.press(key)
        assert "Tile 2 of 2, line 7 of 7" in page.locator(".fac").last.inner_text()
        cells = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"
        assert page.evaluate(cells) == 1 + len(CELLS)

        for text, part in (("the notes", "stepper-notes"), ("the grid", "schedule-grid")):
            page.get_by_role("link", name=text).click()
            assert page.evaluate(POINTED) == part
            assert page.evaluate("() => document.activeElement.dataset.facPart") == part

        page.get_by_label("Your guess:").fill("7")
        page.get_by_role("button", name="Keep my prediction").click()
        store = notebook.parent / "store.json"
        for _ in range(50):
            if store.exists():
                break
            page.wait_for_timeout(100)
        stored = json.loads(store.read_text())
        assert [entry["answer"] for entry in stored["predictions"]["lab"]] == [7]

        run_command(page, "apputils:change-theme", theme="JupyterLab Dark")
        page.wait_for_function(
            """() => { const rgb = getComputedStyle(document.querySelector('.fac')).color;
               return rgb.match(/[0-9.]+/g).slice(0, 3).every((x) => Number(x) > 180); }"""
        )
    assert not wrong
