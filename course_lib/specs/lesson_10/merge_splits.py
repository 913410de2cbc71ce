"""Exercise 10.6: parts with their lse, some of them empty, merged by a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.online_softmax import finite_max
from course_lib.judging import cases as draw
from course_lib.judging.decode_judge import stored_once
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.kernel_judge import formal_fault, in_turn, no_race, was_launched
from course_lib.judging.least import Least, counted
from course_lib.judging.misconceptions import (
    BASES,
    LEFT_OUT,
    NOT_THE_MAXIMUM,
    SAYS,
    SMALL_RISE,
    ZERO_AT_LEAST,
    attention_mistakes,
)
from course_lib.judging.spec import FAR, JUMPS, REMAINDER, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64

EMPTY = -math.inf


def _case(
    rng: Generator,
    name: str,
    lse: Any,
    d: int = 16,
    *,
    heads: int = 2,
    batches: int = 2,
    **how: Any,
) -> Case:
    """Return parts of so many heads and batches; ``lse`` (splits,) is moved a little in each.

    Heads get it in turns as it is and from the last split to the first. What is empty stays empty.
    """
    rows = np.stack([lse if i % 2 == 0 else lse[::-1] for i in range(batches * heads)], -1)
    rows = rows + how.pop("moved", 1.0) * np.round(8 * rng.standard_normal(rows.shape)) / 8
    lse = rows.reshape(-1, batches, heads)
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
        # no lse is 0: who takes that for empty is told so, where the first numbers are new as well
        one("4 splits, 3 heads, d = 16", [1.06, 3.06, -1.94, 2.06], heads=3),
        one("one split", [2.5], 32),
        one("3 splits, strided memory", [1, 2, 0], heads=3, strided=True),
        one("3 splits, the second is empty, d = 64", [1, EMPTY, 2], 64),
        one("5 splits of 3 x 3 heads, all but the third are empty",
            [EMPTY, EMPTY, 0.5, EMPTY, EMPTY], heads=3, batches=3),
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
        one("130 splits, one head: the last two weigh most, the others by their number",
            [*[0] * 128, 11, 12], heads=1),
        one("an empty part is filled with NaN", [0, EMPTY, 1, EMPTY], garbage=math.nan),
        one("an empty part is filled with infinity", [EMPTY, 1, 0], garbage=math.inf),
        one("the lse of a part is 0: it counts like any other", [0, math.log(3)], moved=0.0),
    ]  # fmt: skip


def _truth(o: Any, lse: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return o and lse, float64, of parts (splits, B, H, d) and (splits, B, H)."""
    o, lse = as_float64(o), as_float64(lse)
    m = finite_max(lse.max(0))
    weights = np.exp(lse - m)
    total = weights.sum(0)
    safe = np.where(total == 0, 1, total)
    return _weighed(o, weights / safe), np.where(total == 0, -np.inf, m + np.log(safe))


def _weighed(o: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted sum of the parts; one of weight 0 adds nothing, whatever it holds."""
    weights = weights[..., None]
    return np.asarray((weights * np.where(weights == 0, 0, o)).sum(0))


# Mistakes ----------------------------------------------------------------------------------------

_WEIGHTS = "a part weighs exp(lse_i - lse): as much as all its keys together"


def _by_weights(weights: Callable[[np.ndarray], Any]) -> Callable[..., Any]:
    """Return a merge whose o is weighed otherwise, and whose lse is right."""

    def model(o: Any, lse: Any) -> Any:
        with np.errstate(all="ignore"):
            return _weighed(as_float64(o), weights(as_float64(lse))), _truth(o, lse)[1]

    return model


def _averaged(o: Any, lse: Any) -> Any:
    """Return the mean of the parts that have a key, and the lse of as many equal ones."""
    lse = as_float64(lse)
    there, m = np.isfinite(lse), finite_max(lse.max(0))
    count = there.sum(0)
    with np.errstate(all="ignore"):
        return _weighed(as_float64(o), there / np.maximum(count, 1)), m + np.log(count)


def _splits_last(x: Any) -> Any:
    """Return parts (splits, B, H, ...) as they are read by who takes them for (B, H, splits, ...).

    Of tensors in one piece: what lies otherwise is put into one first.
    """
    splits, *rows = x.shape
    return x.contiguous().reshape(*rows[:2], splits, *rows[2:]).movedim(2, 0)


def _without_maximum(o: Any, lse: Any) -> Any:
    with np.errstate(all="ignore"):
        weights = np.exp(as_float64(lse).astype(np.float32))
        total = weights.sum(0)
        safe = np.where(total == 0, 1, total)
        return _weighed(as_float64(o), weights) / safe[..., None], np.log(total)


def _times_anything(o: Any, lse: Any) -> Any:
    """Return what comes of 0 times what an empty part holds."""
    merged, whole = _truth(o, lse)
    return merged + (0 * as_float64(o)).sum(0), whole


def _total(lse: Any) -> np.ndarray:
    """Return the sum of the weights against the largest, 1 where all parts are empty."""
    lse = as_float64(lse)
    total = np.exp(lse - finite_max(lse.max(0))).sum(0)
    return np.where(total == 0, 1, total)


def _at_least_0(o: Any, lse: Any) -> Any:
    """Return what comes of a maximum that is never below 0; where nothing weighs, of no keys."""
    o, lse = as_float64(o), as_float64(lse)
    m = np.maximum(lse.max(0), 0).astype(np.float32)
    weights = np.exp((lse - m).astype(np.float32))
    total = weights.sum(0)
    safe = np.where(total == 0, 1, total)
    with np.errstate(divide="ignore"):
        return _weighed(o, weights) / safe[..., None], m + np.log(total)


def _mean_seen(lse: np.ndarray) -> np.ndarray:
    full = np.isfinite(lse)
    return np.where(full, lse, 0).sum(0) / np.maximum(full.sum(0), 1)


def _weighed_by_itself(lse: np.ndarray) -> np.ndarray:
    weights = np.exp(lse - finite_max(lse.max(0))) / _total(lse)
    return (weights * np.where(np.isfinite(lse), lse, 0)).sum(0)


_OF_WEIGHTS = Mistake.table(
    ("an empty part is loaded, and weighs 0",
     "a weight of 0 does not take a number away that is infinite or NaN: 0 times it is NaN. Where "
     "lse_i is -inf nothing is to be loaded: put that into the mask of the load, or choose with "
     "tl.where what is multiplied.",
     _times_anything),
    ("the parts are averaged",
     f"{_WEIGHTS}. A part with one key is not worth as much as one with a hundred, and an empty "
     "one is worth nothing.",
     _by_weights(lambda lse: np.full_like(lse, 1 / len(lse))),
     _by_weights(lambda lse: np.isfinite(lse) / np.maximum(np.isfinite(lse).sum(0), 1)),
     _averaged),
    ("the last splits are left out",
     "the next power of two holds all splits, the one before it does not: cdiv up, and mask.",
     lambda o, lse: _truth(*(x[: 1 << (len(x).bit_length() - 1)] for x in (o, lse)))),
    ("the parts are read as if the splits stood behind the heads",
     "o_parts is (splits, B, H, d): row by row, a split's heads lie together. Part i of a row is "
     "i * rows + row, not row * splits + i.",
     lambda o, lse: _truth(*map(_splits_last, (o, lse)))),
    ("the parts are added up", f"{_WEIGHTS}. Each o is an average already.",
     _by_weights(np.ones_like)),
    ("the parts are weighed by lse", f"{_WEIGHTS}: lse itself is a logarithm, and may be negative.",
     _by_weights(lambda lse: lse / lse.sum(0))),
    ("only the largest part counts", f"{_WEIGHTS}: the smaller ones count, too.",
     _by_weights(lambda lse: (lse == lse.max(0)) * 1.0)),
    ("every part is the last one",
     "the address of a part begins with its number: i * rows + row.",
     lambda o, lse: _truth(*(np.broadcast_to(as_float64(x)[-1:], x.shape) for x in (o, lse)))),
    ("every part is the first one",
     "the address of a part begins with its number: i * rows + row.",
     lambda o, lse: _truth(*(np.broadcast_to(as_float64(x)[:1], x.shape) for x in (o, lse)))),
    ("divided by the total twice",
     "once the weights are divided by their sum they add up to 1: the sum of the weighted parts is "
     "o already.",
     lambda o, lse: (_truth(o, lse)[0] / _total(lse)[..., None], _truth(o, lse)[1])),
    ("lse is an average of the parts' lse",
     "lse is a logarithm: not lse, but the exp(lse_i) add up. lse = m + ln(sum of exp(lse_i - m)).",
     lambda o, lse: (_truth(o, lse)[0], as_float64(lse).mean(0)),
     lambda o, lse: (_truth(o, lse)[0], _mean_seen(as_float64(lse))),
     lambda o, lse: (_truth(o, lse)[0], _weighed_by_itself(as_float64(lse)))),
    ("the mean of the exponentials, not their sum",
     "lse is divided by the number of splits, in the logarithm: the exp(lse_i) add up, and o "
     "alone is an average.",
     lambda o, lse: (_truth(o, lse)[0], _truth(o, lse)[1] - np.log(len(lse))),
     lambda o, lse: (_truth(o, lse)[0], _truth(o, lse)[1] - np.log(
         np.maximum(np.isfinite(as_float64(lse)).sum(0), 1)))),
    ("divided by the number of splits",
     f"{_WEIGHTS}. The exp(lse_i - m) are not splits in number: divide by their sum.",
     _by_weights(lambda lse: np.exp(lse - finite_max(lse.max(0))) / len(lse))),
    ("lse is added up", "lse is a logarithm: not lse, but the exp(lse_i) add up.",
     lambda o, lse: (_truth(o, lse)[0], as_float64(lse).sum(0))),
    ("no maximum is subtracted", SAYS["no maximum is subtracted"], _without_maximum),
    ("a part whose lse is 0 counts as empty",
     "lse is a logarithm, and 0 is that of 1: a part like any other. An empty one has -inf.",
     lambda o, lse: _truth(o, np.where(as_float64(lse) == 0, EMPTY, as_float64(lse))),
     lambda o, lse: (
         _truth(np.where((as_float64(lse) == 0)[..., None], 0, as_float64(o)), lse)[0],
         _truth(o, lse)[1])),
    (ZERO_AT_LEAST,
     "m never falls below 0: does it start there? Where every lse is far below 0 all weights "
     "vanish. Start at -inf.",
     _at_least_0),
)  # fmt: skip

# A merge is a softmax over the splits: the mistakes that one can make in it are those of lesson 03.
_SHARED = frozenset(
    {
        "a very negative maximum is replaced", "no maximum is subtracted", NOT_THE_MAXIMUM, BASES,
        LEFT_OUT, "log2 where ln is meant", "lse in base 2", "lse is m", "lse is ln(m + l)",
        "lse is only l",
    }
)  # fmt: skip
_ONE_AFTER_THE_OTHER = frozenset(
    {
        "O is not rescaled", "l is not rescaled", "nothing is rescaled", "alpha is inverted",
        "the past is thrown away", "each tile uses its own maximum", SMALL_RISE,
    }
)  # fmt: skip
_EMPTY_LSE = (
    "the lse of no keys is not -inf",
    "m_safe, the 0 in place of m = -inf, belongs in exp only, and no number stands for -inf: where "
    "all parts are empty, lse is -inf.",
)
_IN_OTHER_WORDS = {
    "keys past the end count as score 0": (
        "places past the last split count",
        "splits are filled up to a power of two: what is loaded there must be -inf, not 0.",
    ),
    "a hidden score is not -inf": (
        "places past the last split count",
        "splits are filled up to a power of two: what is loaded there must be -inf, not a number.",
    ),
    "not divided by the sum": (
        "not divided by the weights' sum",
        "the weights exp(lse_i - m) do not add up to 1: divide by their sum.",
    ),
    "lse is ln(l)": ("lse is ln(total)", "lse lacks the maximum m."),
    "lse is m + l": ("lse is m + total", "lse is m + ln(total), not m + total."),
    "rows without a key are not guarded": (
        "parts without keys give NaN",
        "where all parts are empty the largest lse is -inf, and -inf - (-inf) and 0 / 0 are NaN: "
        "subtract 0 there, divide by 1, and o is 0.",
    ),
    "lse of a row without keys is 0": _EMPTY_LSE,
    "lse of a row without keys is a large negative number": _EMPTY_LSE,
    "the maximum does not start at -inf": _EMPTY_LSE,
}


def _over_splits(attend: Callable[..., Any], at_once: bool) -> Callable[..., Any]:
    """Return ``attend`` (q, k, v) with the parts for keys: lse are the scores, o the values.

    ``at_once``: all splits are one tile, filled up to a power of two; else each is one.
    """

    def model(o: Any, lse: Any) -> Any:
        o = np.where(np.isneginf(as_float64(lse))[..., None], 0, as_float64(o))
        values, scores = (np.moveaxis(as_float64(x), 0, 2) for x in (o, lse))
        k = scores[..., None]  # (B, H, splits, 1)
        tile = 1 << (len(o) - 1).bit_length() if at_once else 1
        with np.errstate(all="ignore"):
            merged, whole = attend(np.ones_like(k[:, :, :1]), k, values, block_q=1, block_k=tile)
        return merged[:, :, 0], whole[:, :, 0]

    return model


def _of_the_loop() -> Iterator[Mistake]:
    """Yield the shared mistakes of the recurrence."""
    names = _SHARED | _ONE_AFTER_THE_OTHER | _IN_OTHER_WORDS.keys()
    shared = attention_mistakes(with_lse=True, dtype=np.float32, without_masks=names)
    for one in sorted(shared, key=lambda one: "not guarded" not in one.name):  # NaN is theirs
        name, says = _IN_OTHER_WORDS.get(one.name, (one.name, one.says))
        for at_once in (False,) if one.name in _ONE_AFTER_THE_OTHER else (True, False):
            yield Mistake(name, says, _over_splits(one.model, at_once))


OF_THE_LOOP = tuple(_of_the_loop())


# Judging -----------------------------------------------------------------------------------------


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    import torch

    if fault := formal_fault(observed.result, expected, torch.float32):
        return fault
    o, lse = observed.result
    parts, lses = map(as_float64, case.args)
    full = np.isfinite(lses)
    of_lse = 2.0**-22 * float(np.abs(lses[full]).max(initial=0.0))
    of_weights = min(of_lse * float(np.abs(parts[full]).max(initial=0.0)), 0.02)
    axes = ("batch", "head", "column")
    return array_finding(
        o, expected[0], allowed=1e-5 + of_weights, name="`o`", axes=axes
    ) or array_finding(lse, expected[1], allowed=1e-5 + of_lse, name="`lse`", axes=axes[:-1])


def _least(case: Case) -> Least:
    o, lse = case.args
    no_part = bool((lse == float("-inf")).any())  # of which there is nothing to load
    return Least(
        rule="each part and each lse is loaded once, o and lse are stored once",
        loads={"o_parts": o.numel(), "lse_parts": lse.numel()},
        stores=o[0].numel() + lse[0].numel(),
        idle=no_part,
        share=("one head of one batch", o.shape[-1] + 1),
    )


EXERCISE = Exercise.of(
    "10.6",
    cases=_cases,
    truth=_truth,
    judge=in_turn(stored_once(_judge), was_launched, no_race, counted(_least)),
    kind="kernel",
    races=True,
    mistakes=(*_OF_WEIGHTS, *OF_THE_LOOP),
)
