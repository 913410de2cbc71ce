"""Run a notebook and write it as one HTML page whose widgets still move, without a kernel."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from course_lib.authoring.running import client
from course_lib.handin.course_file import FileProblem

_VIEW = "application/vnd.jupyter.widget-view+json"
_SECONDS = 600  # for one cell
_IMAGE = re.compile(r"!\[([^\]]*)\]\(https?://[^)]*\)")  # remote; its text stays

# The code of a folded cell (authoring/folding.py) opens by one click on its kind, not its title:
# what it asks or draws stands right below.
_TEMPLATE = """\
{%- extends "lab/index.html.j2" -%}
{%- block input_group -%}
{%- if cell.metadata.get("jupyter", {}).get("source_hidden") -%}
<details class="course-folded"><summary>
{{ cell.source.split("\n")[0].removeprefix("# @title ").split(": ")[0] }} (its code)</summary>
{{ super() }}</details>
{%- else -%}{{ super() }}{%- endif -%}
{%- endblock input_group -%}
"""
# Code that is wider than the page can be moved, and is not cut, as the template would. On a wide
# screen the page stands in its middle.
_LOOK = """<style>
main { max-width: 1240px; margin: 0 auto; }
.jp-RenderedHTMLCommon :is(h1, h2, h3) { line-height: 1.25; }
.course-folded summary { margin-left: var(--jp-cell-prompt-width); }
.jp-InputArea-editor .highlight { overflow-x: auto; }
@media (max-width: 760px) { .course-folded summary { margin-left: 0; } }
</style>"""
_STYLE = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL)


def page(notebook: Path) -> str:
    """Return the HTML of ``notebook`` after all its cells ran, in its own folder.

    The file on disk is left alone. Nothing in the page asks the network for anything.

    Raises:
        FileProblem: if it is no notebook, or a cell raises that is not marked as raising.
    """
    import nbformat
    from jinja2 import DictLoader
    from nbclient.exceptions import CellExecutionError
    from nbconvert import HTMLExporter

    try:
        book = nbformat.read(notebook, as_version=4)
    except OSError as error:
        raise FileProblem(f"{notebook} cannot be read ({error.strerror}).") from None
    except Exception:
        raise FileProblem(f"{notebook} is not a Jupyter notebook.") from None
    try:
        with _pictures():
            client(book, notebook.resolve().parent, _SECONDS).execute()
    except CellExecutionError as error:
        raise FileProblem(f"{notebook}: a cell raises {error.ename}: {error.evalue}") from None
    state = _widget_state(book.metadata.pop("widgets", {}))  # nbclient needs it; a page does not
    for cell in book.cells:
        if cell.cell_type == "markdown":
            cell.source = _IMAGE.sub(r"\1", cell.source)
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if view := data.pop(_VIEW, None):  # no kernel will come: what stands in for it stays
                still = _still(view["model_id"], state)
                data.setdefault("text/html", f"<pre>{html.escape(still)}</pre>")
    loader = DictLoader({"course.html.j2": _TEMPLATE})
    exporter = HTMLExporter(
        template_file="course.html.j2",
        extra_loaders=[loader],
        require_js_url="",
        jquery_url="",
        mathjax_url="",
    )
    text, _ = exporter.from_notebook_node(book, {"metadata": {"name": notebook.stem}})
    text = re.sub(r'<script src="">\s*</script>\s*', "", text)  # the addresses emptied above
    return text.replace("</head>", f"{_LOOK}{_dark_theme(exporter)}</head>", 1)


def _widget_state(metadata: Any) -> dict[str, dict[str, Any]]:
    """Return the state of every widget of an executed notebook, by its id."""
    models = metadata.get("application/vnd.jupyter.widget-state+json", {}).get("state", {})
    return {name: model["state"] for name, model in models.items()}


def _still(model: str, state: dict[str, dict[str, Any]]) -> str:
    """Return what a widget that is not the course's shows now: its values and its output."""
    mine = state.get(model.removeprefix("IPY_MODEL_"), {})
    shown = [_still(child, state) for child in mine.get("children", ())]
    if description := mine.get("description"):
        labels, index = mine.get("_options_labels"), mine.get("index")
        value = mine.get("value") if labels is None or index is None else labels[index]
        shown.append(f"{description} = {value}\n")
    for output in mine.get("outputs", ()):
        shown.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return "".join(shown)


def _dark_theme(exporter: Any) -> str:
    """Return JupyterLab's dark theme for readers whose system is dark: so the widgets are, too."""
    import nbformat

    exporter.theme = "dark"
    empty, _ = exporter.from_notebook_node(nbformat.v4.new_notebook())
    theme = next(sheet for sheet in _STYLE.findall(empty) if "--jp-layout-color0: #111" in sheet)
    return f"<style>@media (prefers-color-scheme: dark) {{ {theme} }}</style>"


@contextmanager
def _pictures() -> Iterator[None]:
    """Ask the widgets to add a static picture, for viewers that strip scripts."""
    before = os.environ.get("COURSE_PICTURES")
    os.environ["COURSE_PICTURES"] = "1"
    try:
        yield
    finally:
        os.environ.pop("COURSE_PICTURES")
        if before is not None:
            os.environ["COURSE_PICTURES"] = before
