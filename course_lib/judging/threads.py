"""One thread of arithmetic while an answer is judged; the student's own settings come back after.

A check multiplies thousands of small matrices. Shared among threads each of them takes longer, and
the threads that wait keep every core busy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let NumPy and torch (if it is imported by now) use one thread inside the block."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield
