"""Exercise 10.6: parts with their lse, some of them empty, merged by a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.slips import LN_2, LOW_NUMBERS
from course_lib.judging import cases as draw
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.kernel_judge import formal_fault, in_turn, no_race, was_launched
from course_lib.judging.least import Least, counted
from course_lib.judging.misconceptions import BASES
from course_lib.judging.spec import FAR, JUMPS, REMAINDER, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64
from course_lib.specs.lesson_10.kernels import stored_once

EMPTY = -math.inf


def _case(rng: Generator, name: str, lse: Any, d: int = 16, *, heads: int = 2, **how: Any) -> Case:
    """Return parts of two batches and ``heads`` heads; ``lse`` (splits,) is moved a little in each.

    Heads get it in turns as it is and from the last split to the first. What is empty stays empty.
    """
    rows = np.stack([lse if i % 2 == 0 else lse[::-1] for i in range(2 * heads)], -1)
    rows = rows + np.round(8 * rng.standard_normal(rows.shape)) / 8
    lse = rows.reshape(-1, 2, heads)
    o = rng.standard_normal((*lse.shape, d)) + 0.5
    o[np.isneginf(lse)] = how.pop("garbage", 0.0)
    o, lse = (draw.tensor(x) for x in (o, lse))
    if how.pop("strided", False):  # in memory all splits of a head follow each other
        o, lse = (x.movedim(0, 2).contiguous().movedim(2, 0) for x in (o, lse))
    return Case(name, (o, lse), **how)


def _cases(rng: Generator) -> list[Case]:
    def one(name: str, lse: Any, d: int = 16, **how: Any) -> Case:
        return _case(rng, name, np.array(lse, dtype=np.float64), d, **how)

    jump = np.tile([300.0, -300.0, 0.0], 6)[:17]
    return [
        one("4 splits, 3 heads, d = 16", [1, 3, -2, 2], heads=3),
        one("one split", [2.5], 32),
        one("3 splits, strided memory", [1, 2, 0], heads=3, strided=True),
        one("3 splits, the second is empty, d = 64", [1, EMPTY, 2], 64),
        one("5 splits, all but the third are empty", [EMPTY, EMPTY, 0.5, EMPTY, EMPTY]),
        one("8 splits, no part has a key", [EMPTY] * 8, blind_to=frozenset({"zeros"})),
        one("an empty part is filled with 7: it weighs nothing", [EMPTY, 0, 1], garbage=7.0),
        one("large lse: near +110", [110, 108, 111]),
        one("small lse: near -150", [-150, -152, -151, -150, -153]),
        one("17 splits whose lse jump by 600", jump, shows=frozenset({JUMPS, REMAINDER})),
        one("lse near -20000, one part is empty", [-20000, -20003, EMPTY, -20001],
            shows=frozenset({FAR})),
        one("lse of -2**30 and far below", draw.FARTHEST - draw.APART * np.arange(5),
            shows=frozenset({FAR})),
        one("6 splits, 4 heads, d = 128, compiled", [1, -1, 2, EMPTY, 0, 1], 128, heads=4,
            compiled=True, counted=True),
    ]  # fmt: skip


def _weighed(o: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.asarray((weights[..., None] * o).sum(0))


def _merge(
    o: Any,
    lse: Any,
    *,
    top: Callable[[np.ndarray], Any] = lambda lse: lse.max(0),
    guard: bool = True,
    power: float = 1.0,
    divided: Callable[..., Any] = lambda o, total, splits: o / total,
    told: Callable[..., Any] = lambda m, total: m + np.log(total),
    dtype: Any = np.float32,
) -> tuple[np.ndarray, np.ndarray]:
    """Return o and lse of parts (splits, B, H, d) and (splits, B, H), right or with a slip."""
    o, lse = as_float64(o), as_float64(lse).astype(dtype)
    with np.errstate(all="ignore"):
        m = np.asarray(top(lse))
        m_safe = np.where(np.isneginf(m), 0, m) if guard else m
        weights = np.exp((lse - m_safe) * dtype(power))
        total = weights.sum(0)
        safe = np.where(total == 0, 1, total) if guard else total
        return divided(_weighed(o, weights), safe[..., None], len(o)), told(m, safe)


def _by_weights(weights: Callable[[np.ndarray], Any]) -> Callable[..., Any]:
    """Return a merge whose o is weighed otherwise, and whose lse is right."""

    def model(o: Any, lse: Any) -> Any:
        with np.errstate(all="ignore"):
            return _weighed(as_float64(o), weights(as_float64(lse))), _merge(o, lse)[1]

    return model


def _without_maximum(o: Any, lse: Any, *, guard: bool) -> Any:
    with np.errstate(all="ignore"):
        weights = np.exp(as_float64(lse).astype(np.float32))
        total = weights.sum(0)
        safe = np.where(total == 0, 1, total) if guard else total
        return _weighed(as_float64(o), weights) / safe[..., None], np.log(total)


def _low_padding(o: Any, lse: Any) -> Any:
    """Return a merge of parts that are filled up with lse = 0 to a power of two."""
    o, lse = as_float64(o), as_float64(lse)
    more = (1 << (len(o) - 1).bit_length()) - len(o)
    return _merge(*(np.concatenate([x, np.zeros((more, *x.shape[1:]))]) for x in (o, lse)))


def _slip(name: str, says: str, **slips: Any) -> Mistake:
    return Mistake(name, says, lambda o, lse: _merge(o, lse, **slips))


_WEIGHTS = "a part weighs exp(lse_i - lse): as much as all its keys together"
_MISTAKES = (
    *(
        Mistake(
            "the parts are averaged",
            f"{_WEIGHTS}. A part with one key is not worth as much as one with a hundred, and an "
            "empty one is worth nothing.",
            _by_weights(weights),
        )
        for weights in (
            lambda lse: np.full_like(lse, 1 / len(lse)),
            lambda lse: np.isfinite(lse) / np.maximum(np.isfinite(lse).sum(0), 1),
        )
    ),
    Mistake(
        "the parts are added up",
        f"{_WEIGHTS}. Each o is an average already.",
        _by_weights(np.ones_like),
    ),
    Mistake(
        "the parts are weighed by lse",
        f"{_WEIGHTS}: lse itself is a logarithm, and may be negative.",
        _by_weights(lambda lse: lse / lse.sum(0)),
    ),
    Mistake(
        "only the largest part counts",
        f"{_WEIGHTS}: the smaller ones count, too.",
        _by_weights(lambda lse: (lse == lse.max(0)) * 1.0),
    ),
    *(
        Mistake(
            "no maximum is subtracted",
            "exp(lse_i) alone overflows for large lse, and vanishes for small ones: subtract the "
            "largest lse first.",
            partial(_without_maximum, guard=guard),
        )
        for guard in (True, False)
    ),
    _slip(
        "the maximum starts at 0",
        "m is 0 at least here: where all lse lie far below, every weight vanishes. Fill up with "
        "-inf.",
        top=lambda lse: np.maximum(lse.max(0), 0),
    ),
    _slip(
        "the smallest lse is subtracted",
        "subtract the largest lse: then no weight is above 1.",
        top=lambda lse: lse.min(0),
        guard=False,
    ),
    Mistake(
        "places past the last split count",
        "splits are filled up to a power of two: what is loaded there must be -inf, not 0.",
        _low_padding,
    ),
    *(
        _slip(
            BASES,
            "the lse of the parts is natural: exp, or exp2 of lse * log2(e), and tl.log, or "
            "tl.log2 times ln 2.",
            **how,
        )
        for how in (
            {"power": LN_2},
            {"power": 1 / LN_2},
            {"power": LN_2, "told": lambda m, total: m + np.log2(total)},
            {"power": LN_2, "told": lambda m, total: (m + np.log2(total)) * LN_2},
        )
    ),
    _slip(
        "log2 where ln is meant",
        "log2(total) is added to m: use the natural logarithm.",
        told=lambda m, total: m + np.log2(total),
    ),
    _slip(
        "lse in base 2",
        "the lse that is returned is natural, as those that came.",
        told=lambda m, total: (m + np.log(total)) / LN_2,
    ),
    _slip(
        "not divided by the weights' sum",
        "the weights exp(lse_i - m) do not add up to 1: divide by their sum.",
        divided=lambda o, total, splits: o,
    ),
    _slip(
        "divided by the number of splits",
        "the weights exp(lse_i - m) are not splits in number: divide by their sum.",
        divided=lambda o, total, splits: o / splits,
    ),
    _slip("lse is m", "lse lacks the logarithm of the weights' sum.", told=lambda m, total: m),
    _slip("lse is ln(total)", "lse lacks the maximum m.", told=lambda m, total: np.log(total)),
    _slip(
        "lse is m + total", "lse is m + ln(total), not m + total.", told=lambda m, total: m + total
    ),
    Mistake(
        "lse is added up",
        "lse is a logarithm: not lse, but the exp(lse_i) add up.",
        lambda o, lse: (_merge(o, lse)[0], as_float64(lse).sum(0)),
    ),
    _slip(
        "parts without keys give NaN",
        "where all parts are empty the largest lse is -inf, and -inf - (-inf) and 0 / 0 are NaN: "
        "subtract 0 there, divide by 1, and o is 0.",
        guard=False,
    ),
    *(
        _slip(
            "the lse of no keys is not -inf",
            "the 0 in place of m = -inf belongs in exp only: where all parts are empty, lse is "
            "-inf.",
            told=lambda m, total, low=low: np.where(np.isneginf(m), low, m) + np.log(total),
        )
        for low in (0.0, *(-low for _, low in LOW_NUMBERS))
    ),
)


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    import torch

    if fault := formal_fault(observed.result, expected, torch.float32):
        return fault
    o, lse = observed.result
    finite = as_float64(case.args[1])
    finite = finite[np.isfinite(finite)]
    of_lse = 2.0**-22 * float(np.abs(finite).max(initial=0.0))
    of_weights = min(of_lse * float(np.abs(as_float64(case.args[0])).max()), 0.02)
    axes = ("batch", "head", "column")
    return array_finding(
        o, expected[0], allowed=1e-5 + of_weights, name="`o`", axes=axes
    ) or array_finding(lse, expected[1], allowed=1e-5 + of_lse, name="`lse`", axes=axes[:-1])


def _least(case: Case) -> Least:
    o, lse = case.args
    return Least(
        rule="each part and each lse is loaded once, o and lse are stored once",
        loads={"o_parts": o.numel(), "lse_parts": lse.numel()},
        stores=o[0].numel() + lse[0].numel(),
        idle=False,
    )


EXERCISE = Exercise.of(
    "10.6",
    cases=_cases,
    truth=partial(_merge, dtype=np.float64),
    judge=in_turn(stored_once(_judge), was_launched, no_race, counted(_least)),
    kind="kernel",
    races=True,
    mistakes=_MISTAKES,
)
