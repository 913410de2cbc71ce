"""Ready-made ``judge`` functions: compare what came out with the truth, say where it differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from course_lib.grading.faults import find_fault, is_array
from course_lib.grading.spec import Case, Finding, Observed
from course_lib.grading.tolerance import as_float64, wrong_places

Judge = Callable[[Case, Observed, Any], Finding | None]


def exactly(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Judge answers that are words, whole numbers or tuples of them."""
    return _compare(observed.result, expected, "the answer", relative=0.0)


def within(relative: float) -> Judge:
    """Judge numbers (and tuples or arrays of them) to a relative error, 0.01 for 1 %."""

    def judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
        return _compare(observed.result, expected, "the answer", relative)

    return judge


def _compare(got: Any, expected: Any, name: str, relative: float) -> Finding | None:
    if fault := find_fault(got, expected, name):
        return fault
    if isinstance(expected, tuple | list):
        if not isinstance(got, tuple | list) or len(got) != len(expected):
            return Finding("the form", f"{name} should be {len(expected)} values, not {got!r}.")
        for i, (one, wanted) in enumerate(zip(got, expected, strict=True)):
            if finding := _compare(one, wanted, f"value {i + 1} of {len(expected)}", relative):
                return finding
        return None
    if isinstance(expected, dict):
        return _compare_dict(got, expected, relative)
    if isinstance(expected, str | bool) or expected is None:
        right = got == expected and isinstance(got, type(expected))
        return None if right else Finding("the answer", f"{name} is {got!r}: that is not it.")
    if is_array(expected):
        return array_finding(got, as_float64(expected), relative=relative, name=name)
    return _compare_number(got, expected, name, relative)


def _compare_dict(got: Any, expected: dict[Any, Any], relative: float) -> Finding | None:
    if not isinstance(got, dict):
        return Finding("the form", f"the answer should be a dict with the keys {list(expected)}.")
    if missing := [key for key in expected if key not in got]:
        return Finding("the form", f"the answer has no key {missing[0]!r}.")
    for key, wanted in expected.items():
        if finding := _compare(got[key], wanted, f"the entry {key!r}", relative):
            return finding
    return None


def _compare_number(got: Any, expected: float, name: str, relative: float) -> Finding | None:
    try:
        value = float(got)
    except (TypeError, ValueError):
        return Finding("the form", f"{name} should be a number, not {got!r}.")
    if abs(value - expected) <= relative * abs(expected) or value == expected:
        return None
    return Finding("the answer", f"{name} is {value:.6g}: that is not it.")


def array_finding(
    got: Any,
    truth: np.ndarray,
    *,
    allowed: float | None = None,
    relative: float = 1e-6,
    name: str = "the result",
    tiles: tuple[int, int] | None = None,
) -> Finding | None:
    """Return where ``got`` differs from ``truth`` by more than allowed: tile, row, column.

    ``allowed`` is an absolute error; without it, ``relative`` times the largest true value.
    ``tiles`` = (rows, columns) names the first bad tile of the last two dimensions.
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
    bad = np.isnan(got) & ~np.isnan(truth)
    if bad.any():
        says = f"{name} is NaN in {_share(bad)}."
    elif (np.isinf(got) & ~np.isinf(truth)).any():
        says = f"{name} is infinite in {_share(np.isinf(got) & ~np.isinf(truth))}."
    else:
        worst = np.abs(got - truth)[wrong & np.isfinite(truth)].max(initial=0.0)
        says = f"{name} is wrong in {_share(wrong)}; the largest error is {worst:.3g}."
    return Finding("the values", says, _where(got, truth, wrong, tiles))


def _share(wrong: np.ndarray) -> str:
    if wrong.ndim == 0:
        return "its one value"
    rows = wrong.any(axis=-1) if wrong.ndim > 1 else wrong
    what = "rows" if wrong.ndim > 1 else "entries"
    return f"{int(rows.sum())} of {rows.size} {what}"


def _where(
    got: np.ndarray, truth: np.ndarray, wrong: np.ndarray, tiles: tuple[int, int] | None
) -> str:
    if wrong.ndim == 0:
        return f"yours {float(got):.6g}"
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f"first at index {list(first) if len(first) > 1 else first[0]}"
    if tiles and len(first) >= 2:
        row, column = first[-2] // tiles[0], first[-1] // tiles[1]
        place += f", which is tile ({row}, {column}) of {tiles[0]} x {tiles[1]}"
    return f"{place}: yours {got[first]:.6g}, expected {truth[first]:.6g}"
