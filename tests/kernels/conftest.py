"""What the kernels' tests share: the interpreter takes the shortcuts that a ledger takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from course_lib import _mode


@pytest.fixture(scope="module", autouse=True)
def shortened() -> Iterator[None]:
    """Nothing changes but the time, as tests/sandbox proves with the largest of these kernels."""
    if _mode.mode() != "interpreter":
        yield
        return
    from course_lib.accounting import interpreter_shortcuts

    with interpreter_shortcuts.shortened():
        yield
