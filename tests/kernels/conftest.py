"""What the kernels' tests share: the interpreter's shortcuts, and nothing remembered before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from course_lib import _mode
from course_lib.kernels import launch


@pytest.fixture(scope="module", autouse=True)
def shortened() -> Iterator[None]:
    """Nothing changes but the time, as tests/sandbox proves with the largest of these kernels."""
    if _mode.mode() != "interpreter":
        yield
        return
    from course_lib.accounting import interpreter_shortcuts

    with interpreter_shortcuts.shortened():
        yield


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    """A test that moves a threshold is not to get what was decided before it was moved."""
    launch.forget()
