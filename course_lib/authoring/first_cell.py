"""The first code cell of every notebook, written in one place."""

from __future__ import annotations

from course_lib.authoring.folding import MARK
from course_lib.authoring.percent import Cell
from course_lib.authoring.repository import git_address

SLUG = "setup"

# `!pip`, not `%pip`: the latter prints a note of its own about restarting the kernel.
_TEMPLATE = """\
import sys

if "google.colab" in sys.modules:  # Colab lacks the course; what it ships stays as it is
    !pip install --quiet --no-deps {address}
try:
    import course_lib.doctor  # before torch and triton: it decides whether kernels compile
except ModuleNotFoundError:
    sys.exit("{missing}")
course_lib.set_page()  # prose in a column that is easy to read
if "google.colab" in sys.modules:
    print(course_lib.doctor.headline())"""

# one line, that a notebook shows as it is
_MISSING = (
    "The course is not installed. On Colab: run this cell again, it needs the network; "
    "elsewhere: start JupyterLab with ./course lab (README.md)."
)


def setup_cell(line: int = 1) -> Cell:
    """Return the cell ``setup``, folded: what it does for Colab is no part of a lesson."""
    source = f"# @title Run this first: it sets up the course\n{setup_source()}"
    return Cell(SLUG, "code", source, line, {MARK: True})


def setup_source() -> str:
    """Return the code of the generated cell ``setup``."""
    return _TEMPLATE.format(address=git_address(), missing=_MISSING)
