"""Exercise 5.3: the softmax of a row that fits in a block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.slips import LN_2, LOW_NUMBERS, MOST_SCORES
from course_lib.judging import cases as draw
from course_lib.judging.kernel_judge import (
    MINUS_INF,
    float32_judge,
    in_turn,
    several_programs,
    writes_out,
)
from course_lib.judging.least import Least, counted
from course_lib.judging.load_map import Cut
from course_lib.judging.misconceptions import BASES, CLIPPED, NOT_THE_MAXIMUM, SAYS
from course_lib.judging.spec import Case, Exercise, Mistake
from course_lib.judging.tolerance import as_float64


def _sum(x: np.ndarray) -> np.ndarray:
    return np.asarray(x.sum(axis=1, keepdims=True))


def _shifted(x: Any) -> np.ndarray:
    """Return scores less the maximum of their row."""
    x = as_float64(x)
    return np.asarray(x - x.max(axis=1, keepdims=True))


def _softmax(x: Any) -> np.ndarray:
    p = np.exp(_shifted(x))
    return p / _sum(p)


def _row_cases(rng: Generator) -> list[Case]:
    def drawn(rows: int, n: int, size: float = 2.0, around: float = 0.0) -> Any:
        return draw.tensor(around + size * rng.standard_normal((rows, n)))

    n = int(rng.integers(18, 30))
    return [
        Case("5 rows of 32 scores: a full block", (drawn(5, 32),)),
        Case("6 rows of 37 scores, in blocks of 64", (drawn(6, 37),)),
        Case("4 rows of 20 scores, some above +100, some below -100", (drawn(4, 20, size=90),)),
        Case("3 rows of 40 scores, one far below 0", (draw.tensor(draw.one_far_below(rng)),)),
        Case("4 rows of 50 scores, all of them negative, near -120", (drawn(4, 50, around=-120),)),
        Case("4 rows of 64 scores, all of them negative, near -120: a full block",
             (drawn(4, 64, around=-120),)),
        Case("9 rows of 3 scores", (drawn(9, 3),)),
        Case(
            f"5 rows of {n} scores that are a part of a wider table", (drawn(5, 64)[:, 7 : 7 + n],)
        ),
        Case("3 rows of 100 scores", (drawn(3, 100),), compiled=True),
        *(Case(f"3 rows of 33 scores: {name}", (draw.tensor(x),), shows=shows)
          for name, x, shows in draw.hard_rows(rng, 33, by=150)),
        *(Case(name, (draw.tensor(x),)) for name, x in draw.sized_rows(rng)),
    ]  # fmt: skip


def _once(case: Case) -> Least:
    n = case.args[0].numel()
    rule = "each score is loaded once, each weight is stored once"
    return Least(rule=rule, loads={"x": n}, stores=n)


def in_block(x: np.ndarray, fill: float) -> np.ndarray:
    """Return rows that are filled up to a power of two, as in a kernel's block."""
    n = x.shape[1]
    width = (1 << (n - 1).bit_length()) - n
    return np.pad(x, ((0, 0), (0, width)), constant_values=fill)


def _padded(x: Any, *, fill: float = 0.0, in_max: bool = True, in_sum: bool = True) -> np.ndarray:
    """Softmax of a row in a block whose rest has the score ``fill``."""
    x = as_float64(x).astype(np.float32)
    padded = in_block(x, fill)
    p = np.exp(padded - (padded if in_max else x).max(axis=1, keepdims=True))
    mine = p[:, : x.shape[1]]
    return mine / _sum(p if in_sum else mine)


_ADDED = (0.0, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5)  # to the sum, against 0 / 0


def _less(other: Callable[[np.ndarray], Any], more: float = 0.0) -> Callable[[Any], np.ndarray]:
    """Return a softmax in float32 that subtracts another number than the maximum of the row.

    ``more`` is added to the sum.
    """

    def softmax(x: Any) -> np.ndarray:
        x = as_float64(x).astype(np.float32)
        p = np.exp(x - other(x))
        return p / (_sum(p) + np.float32(more))

    return softmax


def _clipped(x: Any, most: float) -> np.ndarray:
    return _less(lambda s: np.float32(0))(np.minimum(as_float64(x), most))


def cut_off(truth: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the row of a mistake: ``truth`` of scores beyond a limit, on one side or both, that
    are all taken for it.
    """
    limits = [*MOST_SCORES, *(low for _, low in LOW_NUMBERS)]
    sides = [side for most in limits for side in ((-most, np.inf), (-np.inf, most), (-most, most))]

    def clipped(x: Any, *, side: tuple[float, float], **how: Any) -> Any:
        return truth(np.clip(as_float64(x), *side), **how)

    return (
        "scores are cut off",
        "Scores beyond some number are taken for that number, and weigh the same then. Once the "
        "maximum is subtracted, no score is too large or too small for exp.",
        *(partial(clipped, side=side) for side in sides),
    )


def _by_lse(x: Any, lse: Callable[..., np.ndarray]) -> np.ndarray:
    """Return exp(x - lse) for some lse of m and l, (rows, 1) each."""
    x = as_float64(x)
    return np.asarray(np.exp(x - lse(x.max(axis=1, keepdims=True), _sum(np.exp(_shifted(x))))))


_WRONG_LSES: dict[str, Callable[..., Any]] = {
    "lse is only l": lambda m, l_sum: l_sum,
    "lse is ln(l)": lambda m, l_sum: np.log(l_sum),
    "lse is m + l": lambda m, l_sum: m + l_sum,
    "lse is ln(m + l)": lambda m, l_sum: np.log(m + l_sum),
    "log2 where ln is meant": lambda m, l_sum: m + np.log2(l_sum),
}
_MISTAKES = Mistake.table(
    ("a very negative maximum is replaced",
     "What is subtracted is never below some number, 0 or another. In a row of very negative "
     "scores every exponential is then 0. Take the maximum of the row's scores, whatever it is.",
     *(_less(lambda x: np.maximum(x.max(axis=1, keepdims=True), 0), more=more)
       for more in _ADDED)),
    ("masked means score zero",
     "The empty places of the block entered with score 0 and weight exp(0 - max). Load them as "
     "-inf.",
     _padded),
    ("masked means score zero",
     "The empty places of the block entered the sum with weight exp(0 - max). Load them as "
     "-inf.",
     lambda x: _padded(x, in_max=False)),
    ("masked means score zero",
     "The empty places entered the maximum with score 0. In a row of very negative scores "
     "every exponential is then 0. Load them as -inf.",
     lambda x: _padded(x, in_sum=False)),
    ("no maximum is subtracted",
     "exp of a large score is infinite, and inf / inf is NaN. Subtract the row's maximum "
     "before exp.",
     _less(lambda x: np.float32(0))),
    (CLIPPED, SAYS[CLIPPED], *(partial(_clipped, most=most) for most in MOST_SCORES)),
    cut_off(_softmax),
    (NOT_THE_MAXIMUM,
     "Another number of the row than its maximum is subtracted: where a score lies far above "
     "it, exp overflows.",
     _less(lambda x: x.mean(axis=1, keepdims=True)),
     _less(lambda x: x.min(axis=1, keepdims=True)),
     _less(lambda x: x[:, :1]),
     _less(lambda x: in_block(x, -np.inf).mean(axis=1, keepdims=True)),
     _less(lambda x: in_block(x, -np.inf).min(axis=1, keepdims=True))),
    (NOT_THE_MAXIMUM,
     "The largest score without its sign is subtracted (tl.abs), not the largest score: where a "
     "score far below 0 decides, all others lie far below that number, and every exp vanishes.",
     *(_less(lambda x: np.abs(x).max(axis=1, keepdims=True), more=more) for more in _ADDED)),
    ("masked means a large negative score",
     "The empty places of the block entered with a large negative score, but real scores can "
     "lie below it. Load them as -inf.",
     *(lambda x, low=low, sums=sums: _padded(x, fill=-low, in_sum=sums)
       for _, low in LOW_NUMBERS for sums in (True, False))),
    *((name, SAYS[name], partial(_by_lse, lse=lse)) for name, lse in _WRONG_LSES.items()),
    (BASES, SAYS[BASES],
     lambda x: np.exp2(_shifted(x)) / _sum(np.exp(_shifted(x))),
     lambda x: np.exp(_shifted(x)) / _sum(np.exp2(_shifted(x)))),
    ("not divided by the sum",
     "The exponentials are not divided by their sum: each row must add up to 1.",
     lambda x: np.exp(_shifted(x))),
    ("2 in place of e",
     "tl.exp2 is a power of 2: exp2(s) is exp(s * ln 2). Use tl.exp, or multiply the scores by "
     "log2(e) first.",
     lambda x: _softmax(LN_2 * as_float64(x))),
    ("divided by the sum of the scores",
     "The sum is taken of the scores: add up the exponentials, p.",
     lambda x: np.exp(_shifted(x)) / _sum(as_float64(x))),
    ("divided by the mean, not by the sum",
     "The exponentials are divided by their mean: each row must add up to 1.",
     lambda x: x.shape[1] * _softmax(x)),
    ("the scores have the other sign",
     "The smallest score has the largest weight: it is exp(s - max), not exp(min - s).",
     lambda x: _softmax(-as_float64(x))),
    ("the scores are scaled",
     "Here the softmax of the scores as they are is asked for: no 1 / sqrt(n_cols).",
     lambda x: _softmax(as_float64(x) / np.sqrt(x.shape[1]))),
    ("the logarithm of the softmax",
     "This is s - max - log(sum): the weights themselves are p / sum(p).",
     lambda x: _shifted(x) - np.log(_sum(np.exp(_shifted(x))))),
    ("every program works on the first row",
     "The address does not depend on tl.program_id(0): the row starts at row * x_row.",
     lambda x: np.repeat(_softmax(x)[:1], len(x), axis=0)),
)  # fmt: skip


ROW_SOFTMAX = Exercise.of(
    "5.3",
    cases=_row_cases,
    truth=_softmax,
    judge=in_turn(
        float32_judge("the softmax", 1e-5, of_scores=True, fill=MINUS_INF),
        writes_out("softmax"),
        several_programs,
        counted(_once),
    ),
    kind="kernel",
    cuts=lambda case: {"x": Cut((1, case.args[0].shape[1]))},
    mistakes=_MISTAKES,
)
