"""No answer is in sight before a question was asked: in the notebooks, and in a real JupyterLab."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import ROOT
from course.answers import Answer, answers, plain
from widgets.lab import IDLE, serve, write_notebook

FOLDERS = ("notebooks", "exercises", "solutions")
BUILT = sorted(file for folder in FOLDERS for file in (ROOT / folder).glob("*.ipynb"))
MARKS = re.compile(r"[*_|]|^#+ ", re.MULTILINE)  # of Markdown
SHOWN = """() => window.jupyterapp.shell.currentWidget.content.widgets.map((cell) => ({
    slug: cell.model.id,
    rendered: cell.node.innerText,
    code: cell.model.type === 'code' && !cell.inputHidden ? cell.model.sharedModel.source : '',
}))"""
OPENED = """(path) => { const panel = window.jupyterapp?.shell?.currentWidget;
    return panel?.context?.path === path && panel.context.isReady && panel.isVisible; }"""
RENDERED = """() => { const cells = window.jupyterapp.shell.currentWidget.content.widgets;
    return cells.length > 3 && cells.every((cell) => !cell.isPlaceholder()
      && (cell.model.type !== 'markdown' || cell.node.innerText.trim())); }"""


def named(file: Path) -> str:
    return f"{file.parent.name}-{file.stem}"


def folded(cell: Any) -> bool:
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


def given_away(found: list[Answer], shown: list[tuple[str, str]]) -> list[str]:
    """Return what of the answers stands in sight; ``shown`` are (slug, text) in their order.

    An explanation stands nowhere. A truth may be told below its question, not above it.
    """
    slugs = [slug for slug, _ in shown]
    texts = [plain(text).casefold() for _, text in shown]
    seen = []
    for answer in found:
        above = slugs.index(answer.slug) + 1
        for said, places in ((answer.explanations, texts), (answer.truths, texts[:above])):
            seen += [
                f"{slugs[i]} says of {answer.slug}: {part}"
                for part in said
                for i, text in enumerate(places)
                if part.casefold() in text
            ]
    return seen


@pytest.mark.parametrize("file", BUILT, ids=named)
def test_what_a_notebook_says_openly_gives_no_answer_away(file):
    """Each quiz and reveal is folded, and no open cell or prose holds its answer."""
    cells = nbformat.read(file, as_version=4).cells
    found = answers(cells)
    calls = sum(len(re.findall(r"\bQuiz\(|\.reveal\(", c.source)) for c in cells)
    assert len(found) == calls, "a quiz or a reveal was not understood"
    assert found or file.parent.name != "notebooks", "a lesson without a question"
    closed = {cell.id for cell in cells if folded(cell)}
    assert {answer.slug for answer in found} <= closed
    titled = [(c.id, c.source.split("\n")[0] if folded(c) else c.source) for c in cells]
    assert given_away(found, [(slug, MARKS.sub("", text)) for slug, text in titled]) == []


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory) -> Iterator[Any]:
    """A JupyterLab on a copy of the built notebooks that draws all cells at once."""
    folder = tmp_path_factory.mktemp("built")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name)
    settings = folder / "CONFIG/lab/user-settings/@jupyterlab/notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
    write_notebook(folder / "start.ipynb", [])
    with serve(folder / "start.ipynb") as address:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(60_000)
        page.goto(address, wait_until="domcontentloaded")
        page.wait_for_function(IDLE)
        yield page
        page.close()


@pytest.mark.browser
@pytest.mark.sweep  # a JupyterLab of its own, and what it shows is what the test above has read
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "file",
    [pytest.param(f, marks=[pytest.mark.slow] * (f.parent.name != "notebooks")) for f in BUILT],
    ids=named,
)
def test_jupyterlab_shows_no_answer_before_a_run(page, file: Path):
    path = f"{file.parent.name}/{file.name}"
    page.evaluate("(p) => { jupyterapp.commands.execute('docmanager:open', {path: p}); }", path)
    page.wait_for_function(OPENED, arg=path)
    page.wait_for_function(RENDERED)
    cells = page.evaluate(SHOWN)
    closed = {c.id for c in nbformat.read(file, as_version=4).cells if folded(c)}
    assert all(c["rendered"].strip().startswith("# @title") for c in cells if c["slug"] in closed)
    shown = [(c["slug"], f"{c['rendered']}\n{c['code']}") for c in cells]
    assert len(shown) > 3
    assert given_away(answers(nbformat.read(file, as_version=4).cells), shown) == []
    page.evaluate("() => window.jupyterapp.shell.currentWidget.dispose()")
