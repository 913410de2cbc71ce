"""Run a NumPy exercise and measure the most new memory that it held at once."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

# by name, so that they are what they were when this was loaded, whatever becomes of the module
from tracemalloc import get_traced_memory, is_tracing, start, stop
from typing import Any

from course_lib.judging.finding import Finding
from course_lib.judging.judges import Judge
from course_lib.judging.spec import Case, Observed

_STOPPED = "tracemalloc measures how much memory your function holds: do not stop it in there."


def with_peak(function: Callable[..., Any], case: Case) -> Observed:
    """Run the case; a counted one reports the peak of new memory (bytes) as its ledger.

    The ledger is a sentence if the function cannot be called with the case's arguments.
    """
    if complaint := misfit(function, *case.args, **case.kwargs):
        return Observed(None, complaint)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        if not case.counted:
            return Observed(function(*case.args, **case.kwargs))
        start()
        try:
            before = get_traced_memory()[0]
            result = function(*case.args, **case.kwargs)
            peak = get_traced_memory()[1] - before
            return Observed(result, peak if is_tracing() else _STOPPED)
        finally:
            stop()


def holds_half(
    judge: Judge, size: Callable[[Case], int], too_much: Callable[[Case, int, int], Finding]
) -> Judge:
    """Return ``judge``, and after it a look at the memory that a counted case held.

    It may hold half of ``size(case)`` bytes; else ``too_much(case, held, size)`` is the finding.
    """

    def judged(case: Case, observed: Observed, expected: Any) -> Finding | None:
        if isinstance(observed.ledger, str):
            return Finding("signature", observed.ledger)
        finding = judge(case, observed, expected)
        if finding or not case.counted or observed.ledger <= size(case) // 2:
            return finding
        return too_much(case, observed.ledger, size(case))

    return judged


def misfit(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str | None:
    """Return a sentence if ``function`` cannot be called like this, else None."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        return f"the parameters differ from those of the exercise: {error}."
    return None
