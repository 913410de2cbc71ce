"""The first code cell of every notebook, written in one place."""

from __future__ import annotations

from course_lib.authoring.repository import git_address

SLUG = "setup"

# `!pip`, not `%pip`: the latter prints a note of its own about restarting the kernel.
_TEMPLATE = """\
import sys

if "google.colab" in sys.modules:  # Colab lacks the course; what it ships stays as it is
    !pip install --quiet --no-deps {address}

import course_lib  # before torch and triton: it decides whether kernels compile or are interpreted
course_lib.set_page()  # prose in a column that is easy to read

if "google.colab" in sys.modules:
    from course_lib.doctor import headline

    print(headline())"""


def setup_source() -> str:
    """Return the source of the generated cell ``setup``."""
    return _TEMPLATE.format(address=git_address())
