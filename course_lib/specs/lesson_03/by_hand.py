"""Exercise 3.1: two piles on paper, in both orders."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from course_lib.judging.finding import Finding
from course_lib.judging.judges import not_it
from course_lib.judging.misconceptions import BASES
from course_lib.judging.spec import Case, Exercise, Mistake, Observed
from course_lib.specs.lesson_03.piles import INFINITE_AT_FIRST, STREAM_MISTAKES, walk

# Other numbers than the lesson works out: A and B, each with its scores and its values.
_A = np.array([2.0, 3.0]), np.array([[40.0], [20.0]])
_B = np.array([6.0, 2.0]), np.array([[60.0], [30.0]])
_ORDERS = {"first": (_A, _B), "reversed": (_B, _A)}


def _sheet(slip: str = "right", *, inverted: bool = False) -> dict[str, dict[str, float]]:
    """Return what somebody with the named slip writes on paper, for both orders.

    ``inverted``: 1 / alpha stands where alpha should.
    """
    sheet = {}
    for order, both in _ORDERS.items():
        piles, values = map(list, zip(*both, strict=True))
        ((m1, _, l1, o1), (m2, alpha, l2, o2)), answer = walk(piles, values, slip)
        numbers = (m1, l1, o1[0], m2, 1 / alpha if inverted else alpha, l2, o2[0], answer[0])
        names = ("m1", "l1", "o1", "m2", "alpha", "l2", "o2", "answer")
        sheet[order] = {name: float(x) for name, x in zip(names, numbers, strict=True)}
    return sheet


def _numbers(
    piles: tuple[Any, Any],
    values: tuple[Any, Any],
    alpha: Callable[..., Any] = lambda m1, m2, top: np.exp(m1 - m2),
    base: float = np.e,
) -> dict[str, float]:
    """Return the eight numbers of two piles with another alpha, or another base."""
    first, second = piles
    m1, m2 = first.max(), max(first.max(), second.max())
    p1, p2 = base ** (first - m1), base ** (second - m2)
    shrink = base ** np.log(alpha(m1, m2, second.max()))
    l1, o1 = p1.sum(), float((p1 @ values[0])[0])
    l2, o2 = l1 * shrink + p2.sum(), o1 * shrink + float((p2 @ values[1])[0])
    names = ("m1", "l1", "o1", "m2", "alpha", "l2", "o2", "answer")
    numbers = (m1, l1, o1, m2, shrink, l2, o2, o2 / l2)
    return {name: float(x) for name, x in zip(names, numbers, strict=True)}


def _otherwise(*, values_turned: bool = True, **how: Any) -> dict[str, dict[str, float]]:
    """Return a sheet of `_numbers`; ``values_turned``: the values go with their piles."""
    (a, of_a), (b, of_b) = _A, _B
    turned = (of_b, of_a) if values_turned else (of_a, of_b)
    return {
        "first": _numbers((a, b), (of_a, of_b), **how),
        "reversed": _numbers((b, a), turned, **how),
    }


def _judge_sheet(case: Case, observed: Observed, expected: Any) -> Finding | None:
    sheet = observed.result
    for order, numbers in expected.items():
        sums = {"o1": numbers["l1"], "o2": numbers["l2"]}
        if not isinstance(sheet, dict) or not isinstance(sheet.get(order), dict):
            says = "return a dict with the keys 'first' and 'reversed', each a dict of 8 numbers."
            return Finding("the form", says)
        for name, wanted in numbers.items():
            got = sheet[order].get(name)
            if finding := _judge_entry(order, name, got, wanted, sums.get(name)):
                return finding
    return None


def _judge_entry(
    order: str, name: str, got: Any, wanted: float, l_sum: float | None
) -> Finding | None:
    """Judge one number: four careful digits are enough (1 part in 1000).

    ``l_sum`` belongs to an O: it tells an O that is divided already.
    """
    place = f"{name!r} of the {order!r} order"
    try:
        off = abs(float("a text" if isinstance(got, str | bytes) else got) - wanted)
    except (TypeError, ValueError):
        return Finding("the form", f"{place} should be a number; it is {got!r}.")
    if off <= 1e-3 * wanted:
        return None
    rounded = [float(f"{wanted:.{digits}g}") for digits in (2, 3)]
    if off <= 1e-2 * wanted or float(got) in rounded:
        return Finding("five digits", f"{place} is {got:.6g}: close. Keep five digits everywhere.")
    if l_sum and abs(float(got) * l_sum - wanted) <= 1e-3 * wanted:
        says = f"{place} is {got:.6g}: that is an average. O is a sum; divide only in 'answer'."
        return Finding("divided too early", says)
    if name == "m2" and float(got) < wanted:
        says = f"{place} is {got:.6g}. m never falls: it is the best mark so far, of both piles."
        return Finding("the answer", says)
    if name == "answer" and not 20 <= float(got) <= 60:
        return Finding(
            "the answer",
            f"{place} is {got:.6g}. An average of 20, 30, 40 and 60 cannot lie outside 20 to 60.",
        )
    return Finding("the answer", not_it(place, f"{float(got):.6g}"))


BY_HAND = Exercise.of(
    "3.1",
    cases=lambda _rng: [Case("")],
    truth=_sheet,
    judge=_judge_sheet,
    kind="question",
    mistakes=(
        *[
            Mistake(name, says, partial(_sheet, slip, inverted=slip == "inverse"))
            for name, says, slip in STREAM_MISTAKES
            if name != INFINITE_AT_FIRST  # nobody writes NaN on paper
        ],
        Mistake(
            "alpha is inverted",
            "alpha is exp(m1 - m2), the old maximum minus the new one: never above 1.",
            partial(_sheet, inverted=True),
        ),
        *Mistake.table(
            ("alpha is measured against the pile's own maximum",
             "alpha is exp(m1 - m2), of the two marks: the new pile's own maximum is no mark where "
             "it is lower. Where the mark does not move, alpha is 1.",
             partial(_otherwise, alpha=lambda m1, m2, top: np.exp(m1 - top)),
             partial(_otherwise, alpha=lambda m1, m2, top: np.exp(-abs(m1 - top)))),
            ("the values stay where they were",
             "each pile keeps its own values: where the piles are exchanged, so are they.",
             partial(_otherwise, values_turned=False)),
            (BASES, "powers of 2 are taken where e is meant: exp(x) is e to the x.",
             partial(_otherwise, base=2.0)),
        ),
    ),
)  # fmt: skip
