"""Ready-made ``judge`` functions: compare what came out with the truth, say where it differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from course_lib.attention.slips import MOST_SCORES
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.picture import error_map
from course_lib.judging.spec import Case, Observed
from course_lib.judging.tolerance import as_float64, off_by, wrong_places
from course_lib.sandbox.inputs import is_array

Judge = Callable[[Case, Observed, Any], Finding | None]


def exactly(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Judge answers that are words, whole numbers or tuples of them."""
    return compare(observed.result, expected, "the answer", relative=0.0)


def within(relative: float) -> Judge:
    """Judge numbers (and tuples or arrays of them) to a relative error, 0.01 for 1 %."""

    def judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
        return compare(observed.result, expected, "the answer", relative)

    return judge


def compare(got: Any, expected: Any, name: str, relative: float) -> Finding | None:
    """Return how an answer differs from the right one, part by part, else None; ``name`` is its."""
    if fault := find_fault(got, expected, name):
        return fault
    if isinstance(expected, tuple | list):
        if is_array(got) and len(got.shape) and len(got) == len(expected):
            got = list(got)
        if not isinstance(got, tuple | list) or len(got) != len(expected):
            pairs = expected and all(isinstance(x, tuple) and len(x) == 2 for x in expected)
            what = f"{len(expected)} {'pairs' if pairs else 'values'}"
            return Finding("the form", f"{name} should be {what}, not {got!r}.")
        inside = "" if name == "the answer" else f" in {name}"
        for i, (one, wanted) in enumerate(zip(got, expected, strict=True)):
            part = "pair" if isinstance(wanted, tuple) and len(wanted) == 2 else "value"
            which = f"{part} {i + 1} of {len(expected)}{inside}"
            if finding := compare(one, wanted, which, relative):
                return finding
        return None
    if isinstance(expected, dict):
        return _compare_dict(got, expected, relative)
    if isinstance(expected, str | bool) or expected is None:
        right = got == expected and isinstance(got, type(expected))
        return None if right else Finding("the answer", not_it(name, repr(got)))
    if is_array(expected):
        return array_finding(got, as_float64(expected), relative=relative, name=name)
    return _compare_number(got, expected, name, relative)


def _compare_dict(got: Any, expected: dict[Any, Any], relative: float) -> Finding | None:
    if not isinstance(got, dict):
        return Finding("the form", f"the answer should be a dict with the keys {list(expected)}.")
    if missing := [key for key in expected if key not in got]:
        return Finding("the form", f"the answer has no key {missing[0]!r}.")
    for key, wanted in expected.items():
        if finding := compare(got[key], wanted, f"the entry {key!r}", relative):
            return finding
    return None


def _compare_number(got: Any, expected: float, name: str, relative: float) -> Finding | None:
    try:
        value = float("a text" if isinstance(got, str | bytes) else got)  # no "3" for 3
    except (TypeError, ValueError):
        return Finding("the form", f"{name} should be a number, not {got!r}.")
    exact = int(got) if isinstance(got, int | np.integer) else value  # a float rounds above 2**53
    if exact == expected or (relative and abs(exact - expected) <= relative * abs(expected)):
        return None
    if any(value == round(expected, digits) for digits in range(7)):
        return Finding("the answer", not_it(name, f"{value:.6g}", "do not round it."))
    digits = digits_apart(value, expected)
    says = (
        "that is close. Is it rounded on the way, or is a small part missing?"
        if digits > 6
        else "that is not it."
    )
    shown = 17 if value.is_integer() and abs(value) < 2**53 else digits  # whole numbers are whole
    return Finding("the answer", not_it(name, f"{value:.{shown}g}", says))


def digits_apart(one: float, other: float) -> int:
    """Return how many digits it takes to tell two numbers apart: six, or more."""
    digits = range(6, 17)
    return next((n for n in digits if f"{one:.{n}g}" != f"{other:.{n}g}"), 17)


def not_it(name: str, got: str, says: str = "that is not it.") -> str:
    """Return a sentence about a wrong answer that nobody takes for the right one."""
    where = "" if name == "the answer" else f"{name}: "
    return f"{where}yours is {got}; {says}"


def array_finding(
    got: Any,
    truth: np.ndarray,
    *,
    allowed: float | np.ndarray | None = None,
    relative: float = 1e-6,
    name: str = "the result",
    axes: tuple[str, ...] = (),
    block_q: int | None = None,
) -> Finding | None:
    """Return where ``got`` differs from ``truth`` by more than allowed, else None.

    ``allowed`` is an absolute error, one for all or for each; without it, ``relative`` times the
    largest true value.
    ``axes`` names the dimensions ("batch", "head", "row", "column") for the report, and
    ``block_q`` lets it name the first bad tile of rows.
    """
    got = as_float64(got)
    if got.shape != truth.shape:
        return Finding("the shape", f"{name} has shape {got.shape}, not {truth.shape}.")
    if allowed is None:
        finite = np.abs(truth[np.isfinite(truth)])
        allowed = relative * float(finite.max(initial=0.0)) + 1e-12
    wrong = wrong_places(got, truth, allowed)
    if not wrong.any():
        return None
    says = _what(got, truth, wrong, name, "column" in axes or not axes)
    picture = error_map(got, truth, allowed, name, axes)
    return Finding("the values", says, _where(got, truth, wrong, axes, block_q), picture)


def nan_as_0(got: Any, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both with 0 where both are NaN: to a judge NaN is wrong, whatever is wanted."""
    got = as_float64(got)
    meant = np.isnan(got) & np.isnan(truth)
    return np.where(meant, 0, got), np.where(meant, 0, truth)


def _what(got: np.ndarray, truth: np.ndarray, wrong: np.ndarray, name: str, rows: bool) -> str:
    for strange, word in ((np.isnan, "NaN"), (np.isinf, "infinite")):
        bad = strange(got) & ~strange(truth)
        if bad.any():
            return f"{name} is {word}{_share(bad, rows)}."
    says = f"{name} is wrong{_share(wrong, rows)}"
    comparable = wrong & np.isfinite(truth)
    if comparable.any():
        says += f"; the largest error is {np.abs(got[comparable] - truth[comparable]).max():.3g}"
    return says + "."


def _share(wrong: np.ndarray, rows: bool) -> str:
    if wrong.ndim == 0:
        return ""
    rows = rows and wrong.ndim > 1
    if rows:
        wrong = np.any(wrong, axis=-1)
    what = "rows" if rows else "entries"
    return f" in {int(wrong.sum())} of {wrong.size} {what}"


def _where(
    got: np.ndarray,
    truth: np.ndarray,
    wrong: np.ndarray,
    axes: tuple[str, ...],
    block_q: int | None,
) -> str:
    if wrong.ndim == 0:
        return f"yours {float(got):.{digits_apart(float(got), float(truth))}g}"
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    if len(axes) == len(first):
        place = "first at " + ", ".join(f"{a} {i}" for a, i in zip(axes, first, strict=True))
    else:
        place = f"first at index {list(first) if len(first) > 1 else first[0]}"
    if block_q and "row" in axes:
        place += f" (query tile {first[axes.index('row')] // block_q})"
    yours, expected = got[first], truth[first]
    digits = digits_apart(yours, expected)
    return f"{place}: yours {yours:.{digits}g}, expected {expected:.{digits}g}"


def hidden_finding(ledger: Any) -> Finding | None:
    """Return a finding if numbers were computed where an EagerLedger does not see it."""
    if not ledger.unseen:
        return None
    return Finding(
        "hides nothing from the ledger",
        f"the answer is right, but numbers come to {ledger.unseen[0]} that the ledger did not see "
        "being written: from NumPy, from another thread, or while it was switched off. Let PyTorch "
        "compute every step, where it is counted.",
        numbers_right=True,
    )


# differences from the maximum that somebody takes for all below
_LEAST = [-x for x in (*MOST_SCORES, 12.0, 15.0, 25.0, 40.0, 100.0)]


def tells_what_is_cut_off(judge: Judge, made: Callable[[Case, float], Iterable[Any]]) -> Judge:
    """Return a judge that tells an answer in which no difference is below some number.

    What that adds is too little for a known mistake, which has to show in three digits.
    ``made(case, least)``: the answers that it makes.
    """

    def judged(case: Case, observed: Observed, expected: Any) -> Finding | None:
        finding = judge(case, observed, expected)
        if finding is None or finding.property != "the values":
            return finding
        with np.errstate(all="ignore"):
            fits = [
                (off_by(observed.result, one), f"{-least:g}")
                for least in _LEAST
                for one in made(case, least)
                if judge(case, observed, one) is None
            ]
        if not fits:
            return finding
        _, least = min(fits)
        says = (
            f"{finding.says} It is what comes out if a score {least} and more below the "
            f"maximum counts as one {least} below. exp makes small numbers by itself: "
            "cut no difference off."
        )
        return replace(finding, property="cuts no difference off", says=says)

    return judged
