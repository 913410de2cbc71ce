"""A real JupyterLab or Notebook 7 on one notebook, for the browser tests and the benchmark."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).parents[2]
IMPORTS = "import course_lib\nfrom course_lib.widgets import *\nimport ipywidgets"
IDLE = """() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status
  === 'idle'"""
_APPS = {"lab": ("jupyterlab", "LabApp", "lab/tree"),
         "notebook": ("notebook", "JupyterNotebookApp", "notebooks")}  # fmt: skip


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """Write a notebook: code cells, or Markdown where the text begins with ``[markdown]``."""
    v4, mark = nbformat.v4, "[markdown]"
    made = [
        v4.new_markdown_cell(text.removeprefix(mark).strip())
        if text.startswith(mark)
        else v4.new_code_cell(text)
        for text in (IMPORTS, *cells)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(v4.new_notebook(cells=made, metadata=kernel), path)


@contextlib.contextmanager
def serve(notebook: Path, app: str = "lab") -> Iterator[str]:
    """Start ``"lab"`` or ``"notebook"`` in the notebook's folder and yield its address."""
    module, name, where = _APPS[app]
    folder = notebook.parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    environment = {**os.environ, **own, "PYTHONPATH": str(ROOT), "JUPYTER_PREFER_ENV_PATH": "1"}
    environment.setdefault("COURSE_STORE", str(folder / "store.json"))
    quiet = folder / "CONFIG/lab/user-settings/@jupyterlab/apputils-extension"
    quiet.mkdir(parents=True, exist_ok=True)  # no question about news in front of the notebook
    (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    command = [
        sys.executable, "-m", module, "--allow-root", "--no-browser", f"--port={port}",
        "--IdentityProvider.token=", f"--{name}.expose_app_in_browser=True",
        f"--ServerApp.root_dir={folder}",
    ]  # fmt: skip
    with open(folder / "server.log", "w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            for _ in range(90):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(1)
            yield f"http://127.0.0.1:{port}/{where}/{notebook.name}"
        finally:
            server.terminate()
            server.wait(30)


def run_command(page: Any, name: str, **arguments: Any) -> None:
    """Run a command of the application, such as ``notebook:run-all-cells``."""
    page.evaluate("([n, a]) => window.jupyterapp.commands.execute(n, a)", [name, arguments])


def run_all(page: Any, address: str, widgets: int) -> None:
    """Open the notebook, run every cell, and wait until so many widgets are drawn."""
    page.set_default_timeout(60_000)
    page.goto(address, wait_until="domcontentloaded")
    page.wait_for_function(IDLE, timeout=120_000)
    run_command(page, "notebook:run-all-cells")
    page.wait_for_function("n => document.querySelectorAll('.fac').length >= n", arg=widgets)
