"""How a notebook's page looks: prose in a column that the eye can follow, 42 em at 16 px.

A notebook can style its page by an output only. JupyterLab, Notebook and exported HTML show outputs
in the page itself, so a style sheet among the set-up cell's outputs reaches the prose. Colab shows
each output in a frame of its own, and the prose outside cannot be reached from there.
"""

from __future__ import annotations

import sys

PROSE = """<style class="fac-page-style">
.jp-Notebook:has(.fac-page-style) .jp-MarkdownOutput { font-size: 16px; line-height: 1.6; }
/* 42em: of its parts, for in exported HTML the whole is a table's cell and takes no maximum */
.jp-Notebook:has(.fac-page-style) .jp-MarkdownOutput > * { max-width: calc(42 * 16px); }
.jp-Notebook:has(.fac-page-style) .jp-MarkdownOutput :is(table, pre, pre code) { font-size: 14px; }
.jp-Notebook:has(.fac-page-style) .jp-MarkdownOutput table { margin-left: 0; }
.jp-Notebook:has(.fac-page-style) .jp-MarkdownOutput code { overflow-wrap: anywhere; }
@media (max-width: 760px) { /* columns that are wider than the page: moved, not broken */
  .jp-Notebook:has(.fac-page-style) .jp-OutputArea-output { overflow-x: auto; }
  .jp-Notebook:has(.fac-page-style) .jp-OutputArea-output pre { white-space: pre; }
  .jp-Notebook:has(.fac-page-style) .jp-MarkdownOutput pre { white-space: pre; overflow-x: auto; }
  .jp-Notebook:has(.fac-page-style) .jp-MarkdownOutput pre code { white-space: pre; }
}
</style>"""


def set_page() -> None:
    """Give this notebook's page its column of prose; does nothing outside a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if hasattr(shell, "kernel"):
        from IPython.display import HTML, display

        display(HTML(PROSE))
