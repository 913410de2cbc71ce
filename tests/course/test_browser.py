"""The course as a student meets it: `make lab`, JupyterLab, a real browser."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import ROOT, can_fork, lesson_name

from course_lib.lessons import all_lessons, find

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

FOLDERS = ("notebooks", "exercises", "solutions")
FIRST = lesson_name(all_lessons()[0].number)
SHOWN = (FIRST, lesson_name(find("7.4").lesson))
# What its cells say test_notebooks proves without a browser; what Run All does, the first's do.
LONG = SHOWN[1]
EXISTING = [
    pytest.param(folder, name, marks=[pytest.mark.slow] if name == LONG else [])
    for name in SHOWN
    for folder in FOLDERS
    if (ROOT / folder / f"{name}.ipynb").exists()
]
START, RUN = 60_000, 180_000  # milliseconds

# The notebook panel in front is this one, its file is loaded and its kernel waits for work.
READY = """path => {
    const panel = window.jupyterapp?.shell?.currentWidget;
    return panel?.context?.isReady && (path ?? panel.context.path) === panel.context.path
        && panel.sessionContext?.session?.kernel?.status === 'idle';
}"""
# Each cell has been run, or one that may not raise did (which stops the rest).
FINISHED = """() => {
    const code = window.jupyterapp.shell.currentWidget.content.widgets
        .map(cell => cell.model).filter(model => model.type === 'code');
    const raised = model => model.outputs.toJSON().some(o => o.output_type === 'error');
    const mayRaise = model => (model.getMetadata('tags') ?? []).includes('raises-exception');
    return code.every(model => model.executionCount !== null)
        || code.some(model => raised(model) && !mayRaise(model));
}"""
SELECT = """slug => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    const index = notebook.widgets.findIndex(cell => cell.model.id === slug);
    notebook.activeCellIndex = index;
    notebook.scrollToItem(index, 'center');
    return index;
}"""
OUTPUT = """slug => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    const cell = notebook.widgets.find(cell => cell.model.id === slug);
    return cell.outputArea.node.innerText;
}"""
ERRORS = """() => window.jupyterapp.shell.currentWidget.content.widgets
    .filter(cell => cell.model.type === 'code')
    .filter(cell => cell.model.outputs.toJSON().some(output => output.output_type === 'error'))
    .map(cell => cell.model.id)"""


@pytest.fixture(scope="module")
def lab(request, chromium, tmp_path_factory) -> Iterator[str]:
    """Run `make lab` on a copy of the course's files; return the server's address."""
    home = tmp_path_factory.mktemp("course")
    if can_fork():
        request.getfixturevalue("nurse").of_a_kernel(home / "ipython")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, home / folder)
    shutil.copy(ROOT / "Makefile", home)
    port = free_port()
    options = (
        f"--no-browser --allow-root --ip=127.0.0.1 --port={port} --ServerApp.port_retries=0 "
        "--IdentityProvider.token= --LabApp.expose_app_in_browser=True"
    )
    own = {f"JUPYTER_{kind}_DIR": str(home / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    own |= {"IPYTHONDIR": str(home / "ipython"), "COURSE_STORE": str(home / "progress.json")}
    with open(home / "lab.log", "w") as log:
        server = subprocess.Popen(
            ["make", "lab", f"BIN={Path(sys.executable).parent}", f"ARGS={options}"],
            cwd=home,
            env=os.environ | own,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(address, server, home / "lab.log")
        yield address
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def landed(browser, lab) -> Iterator[tuple[Any, str]]:
    """Go where the server sends a browser, once: give the page and the notebook that it shows.

    To load JupyterLab costs five seconds of processor time, so the tests share the page.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    page.goto(lab, wait_until="domcontentloaded")
    page.wait_for_function(READY, timeout=START)
    path = page.evaluate("() => window.jupyterapp.shell.currentWidget.context.path")
    close_notebook(page)
    yield page, path
    context.close()


@pytest.fixture
def page(landed) -> Iterator[Any]:
    """Return the page, and close the notebook that a test opened there."""
    page, _ = landed
    yield page
    close_notebook(page)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(address: str, server: subprocess.Popen, log: Path) -> None:
    for _ in range(120):
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"{address}/api", timeout=5).close()
            return
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"make lab serves nothing:\n{log.read_text()[-3000:]}")


def open_notebook(page: Any, path: str) -> None:
    """Open a notebook and wait until its kernel is idle."""
    page.evaluate("p => { jupyterapp.commands.execute('docmanager:open', {path: p}); }", path)
    page.wait_for_function(READY, arg=path, timeout=START)


def run_all(page: Any) -> None:
    """Run every cell and wait until the kernel is idle again."""
    # Not awaited: the command's promise ends with the first cell that raises, the run does not.
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    page.wait_for_function(FINISHED, timeout=RUN)
    page.wait_for_function(READY, timeout=RUN)


def slugs(path: str, prefix: str = "") -> list[str]:
    cells = nbformat.read(ROOT / path, as_version=4).cells
    return [cell.id for cell in cells if cell.id.startswith(prefix)]


def output(page: Any, slug: str) -> str:
    """Scroll to a cell (JupyterLab renders only what is in view); return what it shows."""
    page.evaluate(SELECT, slug)
    page.wait_for_function(OUTPUT, arg=slug, timeout=START)
    return page.evaluate(OUTPUT, slug)


def close_notebook(page: Any) -> None:
    """End the kernel, so that the next notebook has the machine to itself, and close the panel."""
    page.evaluate(
        """async () => { const panel = window.jupyterapp.shell.currentWidget;
           await panel?.sessionContext?.shutdown(); panel?.dispose(); }"""
    )


def test_make_lab_leads_to_the_first_notebook(landed):
    """The address that the server prints and a browser would be sent to is the first lesson."""
    _, path = landed
    assert path == f"notebooks/{FIRST}.ipynb"


@pytest.mark.parametrize(("folder", "name"), EXISTING)
def test_run_all_in_the_browser(page, folder, name):
    """Lessons run without an error; exercises say *not attempted*; solutions *passed*."""
    path = f"{folder}/{name}.ipynb"
    open_notebook(page, path)
    run_all(page)
    failing = page.evaluate(ERRORS)
    if folder == "notebooks":
        assert failing == []
    else:
        found = slugs(path, "check-")
        verdict = "not attempted" if folder == "exercises" else "passed"
        assert f": {verdict}" in output(page, found[-1])
        assert failing == (found if folder == "exercises" else [])


def test_a_student_types_a_solution_and_sees_it_pass(page):
    """Exercise 3.3: click into the cell, type, Run All, read *passed*."""
    name = f"{lesson_name(find('3.3').lesson)}.ipynb"
    solved = nbformat.read(ROOT / "solutions" / name, as_version=4).cells
    (answer,) = (cell.source for cell in solved if cell.id == "ex-3-3")
    open_notebook(page, f"exercises/{name}")
    page.evaluate(SELECT, "ex-3-3")
    page.locator(".jp-Notebook-cell.jp-mod-active .cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(answer)
    run_all(page)
    assert "3.3 stream_average: passed" in output(page, "check-3-3")
