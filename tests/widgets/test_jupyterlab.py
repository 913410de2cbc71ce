"""Every widget in a real JupyterLab, and all of them in Notebook 7: run, move, step, look.

Set COURSE_SCREENSHOTS to a folder to keep the pictures: each widget, light and dark, wide and
narrow.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from widgets.lab import run_all, run_command, serve, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# How each is made; which trait its first control moves.
WIDGETS = {
    "HBMAccountant": ("HBMAccountant()", "n"),
    "KVCacheCalculator": ("KVCacheCalculator()", "n"),
    "PageTable": ("PageTable()", "page_size"),
    "Predict": ("Predict('lab', 'How many times?', unit='x')", "answer"),
    "Quiz": ("Quiz('Which?', [('a', True, 'Because.'), ('b', False, 'No.')])", "tries"),
    "Race": ("Race()", "at"),
    "RooflineChart": ("RooflineChart()", "n"),
    "ServerMemory": ("ServerMemory()", "pages"),
    "SramBudget": ("SramBudget()", "block_q"),
    "TileSchedule": ("TileSchedule(mask='causal')", "step"),
    "TileStepper": ("TileStepper()", "step"),
}
POINTED = "() => document.querySelector('.fac-pointed')?.dataset.facPart"
DARK = """() => { const rgb = getComputedStyle(document.querySelector('.fac')).color;
   return rgb.match(/[0-9.]+/g).slice(0, 3).every((x) => Number(x) > 180); }"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[tuple[Path, str]]:
    """One JupyterLab for all notebooks of this file: its folder and its address."""
    folder = tmp_path_factory.mktemp("lab")
    write_notebook(folder / "first.ipynb", [])
    with serve(folder / "first.ipynb") as address:
        yield folder, address.removesuffix("lab/tree/first.ipynb")


def open_page(browser: Any, wrong: list[str], height: int, app: str = "lab") -> Any:
    """Note the page's errors; Notebook 7 starts with one (its issue 7862), so there only ours."""
    page = browser.new_context(viewport={"width": 1280, "height": height}).new_page()
    ours = lambda error: app == "lab" or "blob:" in (error.stack or "")  # noqa: E731
    page.on("pageerror", lambda error: ours(error) and wrong.append(str(error)))
    return page


def picture(page: Any, name: str) -> bytes:
    """Take a picture of the widget; keep it if a folder for pictures is named."""
    shot = page.locator(".fac").first.screenshot()
    if folder := os.environ.get("COURSE_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.png").write_bytes(shot)
    return shot


def predict(where: Any) -> None:
    where.get_by_label("Your guess:").fill("7")
    where.get_by_role("button", name="Keep my prediction").click()


def move(page: Any, name: str) -> None:
    """Use the widget's first control as a person would."""
    widget = page.locator(".fac").first
    if name == "Quiz":
        widget.get_by_label("a", exact=True).check()  # the press is the answer
    elif name == "Predict":
        predict(widget)
    elif name.startswith("Tile"):
        widget.get_by_role("button", name="Next").click()
    else:
        widget.locator("input[type=range]").first.press("ArrowRight")


@pytest.mark.parametrize("name", WIDGETS)
def test_a_widget_lives_in_jupyterlab(browser, lab, name):
    """It moves, Python hears of it, and light, dark, wide and narrow are four pictures."""
    folder, address = lab
    make, trait = WIDGETS[name]
    heard = folder / f"{name}.txt"
    hear = f"w.observe(lambda c: open({str(heard)!r}, 'a').write(f'{{c.new}}\\n'), {trait!r})"
    write_notebook(folder / f"{name}.ipynb", [f"w = {make}\n{hear}\nw"])
    wrong: list[str] = []
    page = open_page(browser, wrong, height=1400)
    run_all(page, f"{address}lab/workspaces/{name}/tree/{name}.ipynb", 1)  # no tabs of the others
    before = page.locator(".fac").first.inner_text()
    still = picture(page, f"{name}-at-rest")
    move(page, name)
    for _ in range(100):
        if heard.exists():
            break
        page.wait_for_timeout(100)
    assert heard.read_text().strip(), "Python has not heard of the move"
    assert page.locator(".fac").first.inner_text() != before
    pictures = {still, picture(page, f"{name}-light-1280")}
    page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    page.set_viewport_size({"width": 480, "height": 1400})
    pictures.add(picture(page, f"{name}-light-480"))
    run_command(page, "apputils:change-theme", theme="JupyterLab Dark")
    page.wait_for_function(DARK)
    page.locator("#jupyterlab-splash").wait_for(state="detached")  # it covers a change of theme
    pictures.add(picture(page, f"{name}-dark-480"))
    page.set_viewport_size({"width": 1280, "height": 1400})
    pictures.add(picture(page, f"{name}-dark-1280"))
    assert len(pictures) == 5
    run_command(page, "apputils:change-theme", theme="JupyterLab Light")
    page.context.close()
    assert not wrong


@pytest.mark.parametrize("app", ["lab", "notebook"])
def test_all_widgets_share_a_notebook(browser, tmp_path, own_store, app):
    """Keys stay in the widget, links of the prose find the parts, predictions reach the store."""
    pytest.importorskip({"lab": "jupyterlab", "notebook": "notebook"}[app])
    nested = "ipywidgets.VBox([TileStepper.by_hand([[1, 3], [2, 5]], [[10, 20], [30, 40]])])"
    link = "[markdown] See [the notes](#fac-stepper-notes) and [the grid](#fac-schedule-grid)."
    cells = [*(make for make, _ in WIDGETS.values()), link, nested]
    notebook = tmp_path / "widgets.ipynb"
    write_notebook(notebook, cells)
    wrong: list[str] = []
    with serve(notebook, app) as address:
        page = open_page(browser, wrong, height=5000, app=app)
        run_all(page, address, len(cells) - 1)

        page.get_by_label("Step", exact=True).last.focus()
        for key in ("b", "End", "ArrowLeft"):  # `b` would insert a cell, arrows would leave it
            page.keyboard.press(key)
        stepper = page.locator(".fac").last
        assert "Tile 2 of 2" in stepper.inner_text()
        assert "O = O + p" in stepper.locator("[aria-current=step]").inner_text()
        count = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"
        assert page.evaluate(count) == 1 + len(cells)

        for text, part in (("the notes", "stepper-notes"), ("the grid", "schedule-grid")):
            page.get_by_role("link", name=text).click()
            assert page.evaluate(POINTED) == part
            assert page.evaluate("() => document.activeElement.dataset.facPart") == part

        predict(page)
        for _ in range(100):
            if own_store.exists():
                break
            page.wait_for_timeout(100)
        stored = json.loads(own_store.read_text())
        assert [entry["answer"] for entry in stored["predictions"]["lab"]] == [7]
    assert not wrong


def test_enter_commits_a_number_and_a_guess_may_come_after_run_all(browser, lab):
    """JupyterLab keeps Enter for itself; a folded answer opens once something was predicted."""
    folder, address = lab
    guess = "p = Predict('late', 'How many?', unit='x')\np"
    write_notebook(folder / "late.ipynb", ["w = SramBudget()\nw", guess, "p.reveal(8, 'Because.')"])
    wrong: list[str] = []
    page = open_page(browser, wrong, height=1400)
    run_all(page, f"{address}lab/workspaces/late/tree/late.ipynb", 2)
    box = page.locator(".fac").first.locator("input[type=text]").first
    box.fill("2^5")
    box.press("Enter")
    assert box.input_value() == "32"
    assert box.evaluate("n => n === document.activeElement")
    answer = page.locator(".jp-OutputArea").get_by_text("Because.")
    answer.wait_for(state="hidden")
    predict(page)
    answer.wait_for(state="visible")
    assert page.get_by_text("1.1 times too low.").is_visible()
    page.context.close()
    assert not wrong
