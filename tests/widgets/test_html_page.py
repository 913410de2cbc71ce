"""`course html`: the page of an executed notebook moves, opened from a file without a network."""

from __future__ import annotations

import re

import nbformat
import pytest
from widgets.lab import ROOT, write_notebook

from course_lib.cli import main


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path, own_kernel):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.mark.browser
def test_the_page_moves_and_asks_nobody(tmp_path, browser, capsys):
    """Widgets, prose links and pictures work offline; the notebook on disk is left alone."""
    notebook = tmp_path / "lesson.ipynb"
    stepper = "TileStepper.by_hand([[1, 3], [2, 5]], [[10, 20], [30, 40]])"
    quiz = "Quiz('Which?', [('a', True, 'Because.'), ('b', False, 'No.')])"
    accountant = "ipywidgets.IntSlider(); a = HBMAccountant(); a.n = 4096; a"
    link = "[markdown] See [the naive bar](#fac-accountant-naive_four_trips)."
    write_notebook(notebook, [accountant, link, stepper, quiz])
    before = notebook.read_bytes()
    assert main(["html", str(notebook)]) == 0
    assert "lesson.html" in capsys.readouterr().out
    assert notebook.read_bytes() == before
    html = (tmp_path / "lesson.html").read_text(encoding="utf-8")
    for name in ("HBMAccountant", "TileStepper"):  # for viewers that strip scripts
        assert re.search(rf'<img alt="{name}"[^>]* src="data:image/png', html) or re.search(
            rf'src="data:image/png[^>]* alt="{name}"', html
        )
    assert "application/vnd.jupyter.widget-state+json" not in html
    assert not re.search(r'<script[^>]* src="', html)

    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda m: m.type == "error" and wrong.append(m.text))
    page.on("request", lambda r: r.url.startswith("http") and wrong.append(r.url))
    page.goto((tmp_path / "lesson.html").as_uri())
    first = page.frame_locator("iframe").nth(0)
    assert "N = 4096" in first.locator(".fac-plot svg[role=img]").get_attribute("aria-label")
    first.locator("input[type=range]").first.press("ArrowRight")
    assert "N = 8192" in first.locator(".fac-plot svg[role=img]").get_attribute("aria-label")
    page.get_by_role("link", name="the naive bar").click()
    assert first.locator(".fac-pointed").count() == 1
    second = page.frame_locator("iframe").nth(1)
    second.get_by_role("button", name="Next").click()
    assert "Tile A comes: keys 0 to 1" in second.locator(".fac").inner_text()
    assert page.locator("details", has_text="Because.").count() == 1, "a quiz is folded text here"
    context.close()
    assert not wrong


@pytest.mark.browser
def test_a_built_notebook_folds_its_answers_and_asks_nobody(tmp_path, browser):
    """One click opens the code of a question; no badge is fetched, its words and link stay."""
    lesson = nbformat.read(ROOT / "notebooks/00_start_here.ipynb", 4)
    other = nbformat.read(ROOT / "notebooks/01_naive_attention.ipynb", 4).cells
    quiz = next(cell for cell in other if "\nQuiz(" in cell.source)  # 00 has none of its own
    quiz.source = quiz.source.replace("\nQuiz(", "\nfrom course_lib import Quiz\nQuiz(")
    # what the doctor imports, in processes of its own, other tests have seen
    lesson.cells = [*(cell for cell in lesson.cells if cell.id != "doctor"), quiz]
    nbformat.write(lesson, tmp_path / "00_start_here.ipynb")
    assert main(["html", "00_start_here.ipynb"]) == 0
    page = browser.new_context().new_page()
    asked: list[str] = []
    page.on("request", lambda r: r.url.startswith("http") and asked.append(r.url))
    page.goto((tmp_path / "00_start_here.html").as_uri())
    assert page.get_by_role("link", name="Open in Colab").count() == 1
    prose = page.locator(".jp-MarkdownOutput > p")
    assert max(prose.nth(i).bounding_box()["width"] for i in range(prose.count())) <= 42 * 16
    said = "The numbers are right, and the task says: a new array."  # of a reveal
    code = page.locator(".jp-InputArea", has_text=said)
    code.wait_for(state="hidden")
    page.locator("summary", has_text="The answer (its code)").click()
    code.wait_for(state="visible")
    assert page.locator("summary", has_text="A question (its code)").count() == 1
    page.context.close()
    assert not asked


def test_what_is_printed_into_an_output_widget_breaks_nothing(tmp_path):
    """rich draws the bar of a slow check that way."""
    printed = "out = ipywidgets.Output(); display(out)\nwith out: print('beyond')"
    write_notebook(tmp_path / "lesson.ipynb", [printed])
    assert main(["html", "lesson.ipynb"]) == 0
    page = (tmp_path / "lesson.html").read_text(encoding="utf-8")
    assert "beyond" in page
    assert "application/vnd.jupyter.widget-state+json" not in page


def test_nothing_is_sent_to_the_kernel_while_its_reply_is_awaited(tmp_path):
    """Such a send takes the event that announces the reply, now and then: the page never ended."""
    printed = "out = ipywidgets.Output(); display(out)\nwith out: print('beyond')"
    told = "print(len(out.outputs), 'outputs told')"
    write_notebook(tmp_path / "lesson.ipynb", [printed, told])
    assert main(["html", "lesson.ipynb"]) == 0
    assert "0 outputs told" in (tmp_path / "lesson.html").read_text(encoding="utf-8")


def test_a_cell_that_raises_is_named_and_nothing_is_written(tmp_path, capsys):
    write_notebook(tmp_path / "bad.ipynb", ["1 / 0"])
    assert main(["html", "bad.ipynb"]) == 2
    assert "a cell raises ZeroDivisionError: division by zero" in capsys.readouterr().err
    assert not (tmp_path / "bad.html").exists()


def test_no_notebook_no_traceback_and_no_overwriting(tmp_path, capsys):
    (tmp_path / "text.ipynb").write_text("hello")
    said = {"text.ipynb": "not a Jupyter notebook", "none.ipynb": "cannot be read"}
    for name, sentence in said.items():
        assert main(["html", name]) == 2
        assert sentence in capsys.readouterr().err
    (tmp_path / "text.html").write_text("mine")
    assert main(["html", "text.ipynb"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "text.html").read_text() == "mine"


def test_expected_errors_of_exercises_are_kept(tmp_path):
    """A cell marked raises-exception may raise: its report is part of the page."""
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("raise ValueError('as planned')")]
    )
    book.cells[0].metadata["tags"] = ["raises-exception"]
    nbformat.write(book, tmp_path / "exercise.ipynb")
    assert main(["html", "exercise.ipynb", "-o", "out.html"]) == 0
    assert "as planned" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_a_slider_of_ipywidgets_leaves_what_it_showed(tmp_path):
    """It needs a kernel to move; its values and what its function printed stay on the page."""
    notebook = tmp_path / "slider.ipynb"
    cell = (
        "from ipywidgets import interact\n@interact(layers=(1, 96), n=[1024, 2048])\n"
        "def keep(layers=12, n=2048):\n    print(layers * n, '< all')"
    )
    write_notebook(notebook, [cell])
    assert main(["html", str(notebook)]) == 0
    page = (tmp_path / "slider.html").read_text(encoding="utf-8")
    assert "layers = 12\nn = 2048\n24576 &lt; all" in page
    assert "interactive(children" not in page
