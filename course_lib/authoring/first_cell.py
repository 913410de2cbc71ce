"""The first code cell of every notebook, written in one place."""

from __future__ import annotations

from course_lib.authoring.repository import git_address

SLUG = "setup"

# `!pip`, not `%pip`: the latter prints a note of its own about restarting the kernel.
_TEMPLATE = """\
import sys

if "google.colab" in sys.modules:  # Colab lacks the course; what it ships stays as it is
    !pip install --quiet --no-deps {address}
try:
    import course_lib  # before torch and triton: it decides whether kernels compile
except ModuleNotFoundError:
    sys.exit("{missing}")
course_lib.set_page()  # prose in a column that is easy to read
if "google.colab" in sys.modules:
    from course_lib.doctor import headline
    print(headline())"""

# one line, that a notebook shows as it is
_MISSING = (
    "The course is not installed. On Colab: run this cell again, it needs the network; "
    "elsewhere: start JupyterLab with ./course lab (README.md)."
)


def setup_source() -> str:
    """Return the source of the generated cell ``setup``."""
    return _TEMPLATE.format(address=git_address(), missing=_MISSING)
