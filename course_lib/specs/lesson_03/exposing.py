"""Exercise 3.5: inputs that expose three broken versions."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.spec import Case, Exercise, Observed
from course_lib.specs.lesson_03.piles import Piles, together, walk

# the three broken versions that the notebook gives, as names among SLIPS
BROKEN = {
    "forgets_to_rescale_o": "no_rescale_o",
    "uses_own_maximum": "own_max",
    "starts_at_zero": "start_zero",
}
_SMALL = 700.0  # exp of less, with a minus, is 0, or has lost its digits
_VISIBLE = 1e-3  # times the largest value: a difference that nobody takes for rounding


def _judge_inputs(case: Case, observed: Observed, expected: Any) -> Finding | None:
    parsed = _legal(observed.result)
    if isinstance(parsed, Finding):
        return parsed
    truth = together(*parsed)
    largest = max(np.abs(v).max() for v in parsed[1])
    lines, missed = [], 0
    for name, slip in BROKEN.items():
        with np.errstate(all="ignore"):
            wrong = walk(*parsed, slip)[1]
        exposed = not np.all(np.abs(wrong - truth) <= _VISIBLE * largest)
        missed += not exposed
        lines.append(
            f"{name}: {'exposed' if exposed else 'NOT exposed'}, "
            f"it gives {_short(wrong)} and the truth is {_short(truth)}"
        )
        if not exposed and (why := _why_hidden(name, *parsed)):
            lines.append(f"  {why}")
    if not missed:
        return None
    look = "looks" if missed == 1 else "look"
    says = (
        f"your inputs are legal, but {missed} of the 3 broken versions still {look} right on them."
    )
    return Finding("exposes all three", says, "\n".join(lines))


def _why_hidden(name: str, piles: Piles, values: Piles) -> str:
    """Return which property of these inputs hides a broken version, '' if it is none of these."""
    tops = np.array([s.max() for s in piles])
    if name == "starts_at_zero" and tops.max() > -_SMALL:
        return f"exp({tops.max():g}) is no 0 yet: nothing is lost by a maximum that starts at 0."
    if name == "forgets_to_rescale_o" and (tops <= tops[0]).all():
        return "no pile has a larger maximum than the first: alpha is 1, and nothing is rescaled."
    if name == "uses_own_maximum" and (np.diff(tops) >= 0).all():
        return "no pile's maximum is below the one before: each is the running maximum itself."
    rows = np.concatenate(values)
    if name == "uses_own_maximum" and (rows == rows[0]).all():
        return "all values are alike: whatever the weights, their average is the same."
    return ""


def _short(x: np.ndarray) -> str:
    return np.array2string(x, precision=4, separator=", ", threshold=4)


def _legal(result: Any) -> tuple[Piles, Piles] | Finding:
    """Return the student's piles and values as arrays, or what is wrong with them."""
    if fault := find_fault(result, (None, None)):
        return fault
    piles, values = result
    try:
        piles = [np.asarray(s, dtype=np.float64) for s in piles]
        values = [np.asarray(v, dtype=np.float64) for v in values]
    except (TypeError, ValueError):
        return Finding("legal inputs", "piles and values are lists of arrays of numbers.")
    if not 3 <= len(piles) <= 8 or len(values) != len(piles):
        says = "give 3 to 8 piles, and one array of values for each; there are"
        return Finding("legal inputs", f"{says} {len(piles)} piles and {len(values)} values.")
    for j, (s, v) in enumerate(zip(piles, values, strict=True)):
        if s.ndim != 1 or not 1 <= s.size <= 8:
            says = f"pile {j} has shape {s.shape}: give 1 to 8 scores, shape (n,)."
            return Finding("legal inputs", says)
        if v.ndim != 2 or v.shape[0] != s.size or v.shape[1:] != values[0].shape[1:] or not v.size:
            says = (
                f"the values of pile {j} have shape {v.shape}: give ({s.size}, d), one d for all."
            )
            return Finding("legal inputs", says)
        for name, x in ((f"pile {j}", s), (f"values[{j}]", v)):
            if not np.isfinite(x).all():
                return Finding("legal inputs", f"{name} holds a number that is not finite.")
            if abs(x).max() > 1e6:
                return Finding("legal inputs", f"{name} holds a number beyond a million.")
    return piles, values


EXPOSING_INPUTS = Exercise.of(
    "3.5",
    cases=lambda _rng: [Case("")],
    truth=lambda: None,
    judge=_judge_inputs,
    kind="question",
)
