"""All widgets in a real JupyterLab: run all cells, move, step, type, in both themes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
ROOT = Path(__file__).parents[2]
IMPORTS = "import course_lib\nfrom course_lib.widgets import *\nimport ipywidgets"
CELLS = {
    "HBMAccountant": "accountant = HBMAccountant(); accountant",
    "KVCacheCalculator": "KVCacheCalculator()",
    "Predict": "p = Predict('lab', 'How many times?', unit='x'); p",
    "Quiz": "Quiz('Which?', [('a', True, 'Because.'), ('b', False, 'No.')])",
    "RooflineChart": "RooflineChart()",
    "SramBudget": "SramBudget()",
    "TileSchedule": "TileSchedule(mask='causal')",
    "TileStepper": "ipywidgets.VBox([TileStepper.by_hand([[1, 3], [2, 5]], [[10, 20], [30, 40]])])",
}
IDLE = """() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status
  === 'idle'"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """Start a JupyterLab on a notebook with one cell a widget; return its address."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in (IMPORTS, *CELLS.values())],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    nbformat.write(notebook, tmp_path / "widgets.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "COURSE_STORE": str(tmp_path / "store.json"),
        "PYTHONPATH": str(ROOT),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
    }
    command = [
        sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser", f"--port={port}",
        "--IdentityProvider.token=", "--LabApp.expose_app_in_browser=True",
        "--LabApp.news_url=None", f"--ServerApp.root_dir={tmp_path}",
    ]  # fmt: skip
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            for _ in range(90):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(1)
            yield f"http://127.0.0.1:{port}/lab/tree/widgets.ipynb"
        finally:
            server.terminate()
            server.wait(30)


def run_command(page: Any, name: str, **arguments: Any) -> None:
    page.evaluate("([n, a]) => window.jupyterapp.commands.execute(n, a)", [name, arguments])


@pytest.mark.browser
@pytest.mark.slow
def test_every_widget_lives_in_jupyterlab(chromium, lab, tmp_path):
    """No error, keys stay in the widget, Python hears of it, and the dark theme is followed."""
    pytest.importorskip("jupyterlab")
    page = chromium.new_context(viewport={"width": 1280, "height": 4000}).new_page()
    page.set_default_timeout(60_000)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(lab, wait_until="domcontentloaded")
    page.wait_for_function(IDLE, timeout=120_000)
    run_command(page, "notebook:run-all-cells")
    page.wait_for_function("n => document.querySelectorAll('.fac').length >= n", arg=len(CELLS))

    seek = page.get_by_label("Step", exact=True).last
    seek.focus()
    for key in ("b", "End", "ArrowLeft"):  # `b` would insert a cell, arrows would leave it
        page.keyboard.press(key)
    assert "Tile 2 of 2, line 7 of 7" in page.locator(".fac").last.inner_text()
    cells = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"
    assert page.evaluate(cells) == 1 + len(CELLS)

    page.get_by_label("Your guess:").fill("7")
    page.get_by_role("button", name="Keep my prediction").click()
    for _ in range(50):
        if (tmp_path / "store.json").exists():
            break
        page.wait_for_timeout(100)
    stored = json.loads((tmp_path / "store.json").read_text())
    assert [entry["answer"] for entry in stored["predictions"]["lab"]] == [7]

    run_command(page, "apputils:change-theme", theme="JupyterLab Dark")
    page.wait_for_function(
        """() => { const rgb = getComputedStyle(document.querySelector('.fac')).color;
                   return rgb.match(/[0-9.]+/g).slice(0, 3).every((x) => Number(x) > 180); }"""
    )
    assert not wrong
