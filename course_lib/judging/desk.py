"""Run a NumPy exercise on a desk that counts what is taken (`accounting.desk`); judge the books.

A peak of memory is measured besides, in the cases that ask for it, with what the function kept from
before: who copies all parts while they come by takes each of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

# by name, so that they are what they were when this was loaded, whatever becomes of the module
from tracemalloc import get_traced_memory, is_tracing, start, stop
from typing import Any

import numpy as np
from numpy.typing import NDArray

from course_lib.accounting.desk import Desk, Place, unwrapped
from course_lib.accounting.within_reach import bytes_within_reach
from course_lib.judging.finding import Finding
from course_lib.judging.judges import Judge
from course_lib.judging.spec import Case, Observed
from course_lib.judging.tolerance import as_float64
from course_lib.sandbox import calling

STOPPED = "tracemalloc measures how much memory your function holds: do not stop it in there."


def on_a_desk(function: Callable[..., Any], case: Case, names: tuple[str, ...]) -> Observed:
    """Run the case, its last arguments (positional ones) on a desk; its books are the ledger.

    Where NaN comes out, the result is that of another run on a desk that clears nothing, and the
    books say so. The ledger is a sentence if the function cannot be called with the arguments.
    """
    if complaint := misfit(function, *case.args, **case.kwargs):
        return Observed(None, complaint)
    desk, args = _laid(case, names, clears=True)
    call = partial(function, *args, **case.kwargs)
    if not case.counted:
        result = unwrapped(call())
    else:
        result, peak = measured(function, call)
        result = unwrapped(result)
        if peak is None:
            return Observed(result, STOPPED)
        desk.peak = peak
    for place in desk.places.values():
        place.clear()
    if holds_nan(result):
        desk.stale = True
        result = unwrapped(function(*_laid(case, names, clears=False)[1], **case.kwargs))
    return Observed(result, desk)


def measured(function: Callable[..., Any], call: Callable[[], Any]) -> tuple[Any, int | None]:
    """Return what ``call`` returns, and the most bytes that ``function`` held at once in it.

    What it kept from before counts. None: it stopped the measurement.
    """
    kept = bytes_within_reach(function)
    start()
    try:
        before = get_traced_memory()[0]
        result = call()
        peak = get_traced_memory()[1] - before + kept
        return result, peak if is_tracing() else None
    finally:
        stop()


def _laid(case: Case, names: tuple[str, ...], *, clears: bool) -> tuple[Desk, list[Any]]:
    """Return a desk, and the arguments of a case with the last ones laid on it."""
    desk, n = Desk(clears=clears), len(case.args) - len(names)
    laid = [desk.lay(name, x) for name, x in zip(names, case.args[n:], strict=True)]
    return desk, [*case.args[:n], *laid]


def holds_nan(result: Any) -> bool:
    """Return whether NaN stands in an answer of numbers."""
    parts = result if isinstance(result, list | tuple) else [result]
    try:
        return any(bool(np.isnan(as_float64(x)).any()) for x in parts)
    except (TypeError, ValueError):
        return False


def misfit(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str | None:
    """Return a sentence if ``function`` cannot be called like this, else None."""
    why = calling.misfit(function, *args, **kwargs)
    return why and f"the parameters differ from those of the exercise: {why}."


# The books --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Once:
    """How often each part of an array is to be taken, and how the report says it.

    ``broken``: the property of taking it more often. ``part``: what a part is called, with a place
    for its number. ``times``: how often each may be taken, (rows,) where they differ. ``tile``: its
    rows, and how many visits that makes in all; None where a pile is a part. ``matrices``: of how
    many a tile's rows are, if several lie beside each other. ``taken``: how a tile
    is written, with a place for the array's name. ``least``: to take it less often is wrong, too.
    ``why(times)``: what explains that parts were taken so often, "" if nothing is known.
    ``looks``: a part may be taken once more to see its shape (values[0].shape), where it has one.
    """

    broken: str
    part: str
    times: int | NDArray[np.int64] = 1
    tile: tuple[int, int] | None = None
    matrices: int = 1
    taken: str = "{}[start:stop]"
    least: int = 1
    why: Callable[[NDArray[np.int64]], str] = lambda times: ""
    looks: int = 1


def taken_once(
    judge: Judge,
    allowed: Callable[[Case], Mapping[str, Once]],
    too_much: Callable[[Case, int], Finding | None],
    *,
    part: str,
) -> Judge:
    """Return ``judge``, and after it a look at the books of the desk.

    ``allowed(case)``: how often each array may be taken, by name. ``too_much(case, held)``: what
    is wrong with having held so many bytes at once, in a counted case. ``part``: what lies on the
    desk at a time, a pile or a tile.
    """
    stale = Finding(
        f"one {part} at a time",
        f"your function uses a {part} after it took the next one. The desk has room for one: then "
        f"the numbers of the old {part} are gone (NaN). Without that the answer would be right. "
        f"Look at one {part}, change the notes, forget it.",
    )

    def judged(case: Case, observed: Observed, expected: Any) -> Finding | None:
        desk = observed.ledger
        if isinstance(desk, str):
            return Finding("signature", desk)
        if finding := judge(case, observed, expected):
            return finding
        found = (of_the_tiles(case, desk) or stale) if desk.stale else of_the_books(case, desk)
        return found and replace(found, numbers_right=True)

    def of_the_tiles(case: Case, desk: Desk) -> Finding | None:
        once = allowed(case)
        found = (_tile_finding(name, books, once[name]) for name, books in desk.places.items())
        return next(filter(None, found), None)

    def of_the_books(case: Case, desk: Desk) -> Finding | None:
        once = allowed(case)
        for name, books in desk.places.items():
            wrong = _tile_finding(name, books, once[name])
            wrong = wrong or _times_finding(books, once[name], _past_the_end(desk))
            if wrong := wrong or _across_finding(name, books, once[name]):
                return wrong
        return too_much(case, desk.peak or 0) if case.counted else None

    return judged


def _tile_finding(name: str, books: Place, once: Once) -> Finding | None:
    """Return what is wrong with the size of the parts that were taken."""
    if once.tile is None:
        return None
    tall, visits = once.tile
    take = f"take {once.taken.format(name)}, one tile after the other"
    if books.tallest > tall:
        says = f"{books.tallest} rows of {name} were taken at once, and a tile has {tall}: {take}."
        if books.made_whole:
            says += f" To make an array of all of {name} (`np.asarray`) is to take all of it."
        return Finding("one tile at a time", f"the answer is right, but {says}")
    looks = int((books.times - once.times).clip(0).sum())
    if looks <= once.looks and books.visits - looks > visits:
        passes = once.times if isinstance(once.times, int) else 1
        each = f"{visits // passes}, for each of {passes} Q tiles: " if passes > 1 else ""
        says = (
            f"{name} was taken in {books.visits} parts; whole tiles of {tall} rows are "
            f"{each}{visits}. Does the loop step by {tall} rows?"
        )
        return Finding("takes whole tiles", f"the answer is right, but {says}")
    return None


def _across_finding(name: str, books: Place, once: Once) -> Finding | None:
    """Return what is wrong with where parts begin: each should lie in one tile."""
    if once.tile is None:
        return None
    tall, first = once.tile[0] // once.matrices, np.arange(books.reach.size)
    across = first[(books.reach >= 0) & (first // tall != books.reach // tall)]
    if not across.size:
        return None
    return Finding(
        "takes whole tiles",
        f"the answer is right, but rows {across[0]} to {books.reach[across[0]]} of {name} were "
        f"taken together; tiles begin at row 0, {tall} and so on, and only the last may be short.",
    )


def _past_the_end(desk: Desk) -> str:
    """Return what may explain too many visits: a loop that takes parts that do not exist."""
    names = [name for name, books in desk.places.items() if books.nothing]
    return f"a loop takes tiles of {names[0]} past its end: where must it stop?" if names else ""


def _times_finding(books: Place, once: Once, otherwise: str) -> Finding | None:
    """Return what is wrong with how often a part was taken; what may explain it ``otherwise``."""
    enough = np.broadcast_to(once.times, books.times.shape)
    more = books.times - enough
    if (missed := books.times < np.minimum(once.least, enough)).any():
        j = int(missed.argmax())
        came = f"came only {_times(n)}" if (n := books.times[j]) else "never came"
        says = f"{once.part.format(j)} {came} to the desk."
        why = "Use what the function is given, not a copy of it."
        if books.times.any():  # some rows came: a copy is one reason of several
            why = "Every row counts: does the loop end early or leave a tile out? Or is it a copy?"
        if n:
            why = "Each Q tile needs it: are the rows of several taken together, or a copy of it?"
        return Finding(once.broken, f"the answer is right, but {says} {why}")
    if more.clip(0).sum() <= once.looks:
        return None
    j = int(more.argmax())
    says = (
        f"the answer is right, but {once.part.format(j)} was taken {_times(books.times[j])}, and "
    )
    if not enough[j]:
        return Finding(
            once.broken, f"{says}nobody may look at it: {once.why(books.times) or 'skip its tile.'}"
        )
    is_enough = "once is" if enough[j] == 1 else f"{_times(enough[j])} (once per Q tile) is"
    why = once.why(books.times) or otherwise or "do all that needs it while it lies on the desk."
    return Finding(once.broken, f"{says}{is_enough} enough: {why}")


def _times(n: int) -> str:
    return {1: "once", 2: "twice"}.get(n, f"{n} times")
