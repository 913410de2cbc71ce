"""Exercise 5.3: the softmax of a row that fits in a block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.slips import LOW_NUMBERS, MOST_SCORES
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


def _softmax(x: Any) -> np.ndarray:
    x = as_float64(x)
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


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


def _padded(x: Any, *, fill: float = 0.0, in_max: bool = True, in_sum: bool = True) -> np.ndarray:
    """Softmax of a row in a block of a power of two whose rest has the score ``fill``."""
    x = as_float64(x).astype(np.float32)
    n = x.shape[1]
    width = (1 << (n - 1).bit_length()) - n
    padded = np.pad(x, ((0, 0), (0, width)), constant_values=fill)
    top = (padded if in_max else x).max(axis=1, keepdims=True)
    p = np.exp(padded - top)
    return p[:, :n] / (p if in_sum else p[:, :n]).sum(axis=1, keepdims=True)


def _less(x: Any, other: Callable[[np.ndarray], Any]) -> np.ndarray:
    """Softmax in float32 that subtracts another number than the maximum of the row."""
    x = as_float64(x).astype(np.float32)
    p = np.exp(x - other(x))
    return p / p.sum(axis=1, keepdims=True)


def _in_the_block(x: np.ndarray, of: Callable[..., Any]) -> Any:
    """Return what a statistic is of a row whose block is filled up with -inf."""
    width = (1 << (x.shape[1] - 1).bit_length()) - x.shape[1]
    return of(np.pad(x, ((0, 0), (0, width)), constant_values=-np.inf), axis=1, keepdims=True)


def _clipped(x: Any, most: float) -> np.ndarray:
    x = np.minimum(as_float64(x), most).astype(np.float32)
    p = np.exp(x)
    return p / p.sum(axis=1, keepdims=True)


def cut_off(truth: Callable[..., Any]) -> tuple[Mistake, ...]:
    """Return what ``truth`` is of scores beyond a limit, on one side or both, if all are taken
    for it.
    """
    limits = [*MOST_SCORES, *(low for _, low in LOW_NUMBERS)]
    sides = [side for most in limits for side in ((-most, np.inf), (-np.inf, most), (-most, most))]

    def clipped(x: Any, *, side: tuple[float, float], **how: Any) -> Any:
        return truth(np.clip(as_float64(x), *side), **how)

    return Mistake.ways(
        "scores are cut off",
        "Scores beyond some number are taken for that number, and weigh the same then. Once the "
        "maximum is subtracted, no score is too large or too small for exp.",
        *(partial(clipped, side=side) for side in sides),
    )


def _by_lse(x: Any, lse: Callable[..., np.ndarray]) -> np.ndarray:
    """Return exp(x - lse) for some lse of m and l, (rows, 1) each."""
    x = as_float64(x)
    m = x.max(axis=1, keepdims=True)
    weights: np.ndarray = np.exp(x - lse(m, np.exp(x - m).sum(axis=1, keepdims=True)))
    return weights


def _weighed(x: Any, wrong: Any) -> np.ndarray:
    """Return ``wrong`` of the scores below their maximum; None: divide by the scores' sum."""
    x = as_float64(x)
    s = x - x.max(axis=1, keepdims=True)
    return np.exp(s) / x.sum(axis=1, keepdims=True) if wrong is None else wrong(s)


def _mixed(x: Any, *, above: bool) -> np.ndarray:
    """Return a softmax with powers of 2 ``above`` the line, or below it, and of e else."""
    return _weighed(x, lambda s: _powers(s, above) / _powers(s, not above).sum(1, keepdims=True))


def _powers(s: np.ndarray, of_2: bool) -> np.ndarray:
    return np.asarray(np.exp2(s) if of_2 else np.exp(s))


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
    mistakes=(
        Mistake(
            "a maximum below 0 counts as 0",
            "What is subtracted is never below 0. In a row of very negative scores every "
            "exponential is then 0. Take the maximum of the row's scores, whatever it is.",
            partial(_less, other=lambda x: np.maximum(x.max(axis=1, keepdims=True), 0)),
        ),
        Mistake(
            "masked means score zero",
            "The empty places of the block entered with score 0 and weight exp(0 - max). Load "
            "them as -inf.",
            _padded,
        ),
        Mistake(
            "masked means score zero",
            "The empty places of the block entered the sum with weight exp(0 - max). Load them "
            "as -inf.",
            lambda x: _padded(x, in_max=False),
        ),
        Mistake(
            "masked means score zero",
            "The empty places entered the maximum with score 0. In a row of very negative scores "
            "every exponential is then 0. Load them as -inf.",
            lambda x: _padded(x, in_sum=False),
        ),
        Mistake(
            "no maximum is subtracted",
            "exp of a large score is infinite, and inf / inf is NaN. Subtract the row's maximum "
            "before exp.",
            lambda x: _less(x, lambda row: np.float32(0)),
        ),
        *Mistake.ways(
            CLIPPED, SAYS[CLIPPED], *(partial(_clipped, most=most) for most in MOST_SCORES)
        ),
        *cut_off(_softmax),
        *Mistake.ways(
            NOT_THE_MAXIMUM,
            "Another number of the row than its maximum is subtracted: where a score lies far "
            "above it, exp overflows.",
            partial(_less, other=lambda x: x.mean(axis=1, keepdims=True)),
            partial(_less, other=lambda x: x.min(axis=1, keepdims=True)),
            partial(_less, other=lambda x: x[:, :1]),
            partial(_less, other=lambda x: np.abs(x).max(axis=1, keepdims=True)),
            partial(_less, other=lambda x: _in_the_block(x, np.mean)),
            partial(_less, other=lambda x: _in_the_block(x, np.min)),
        ),
        *(
            Mistake(
                "masked means a large negative score",
                "The empty places of the block entered with a large negative score, but real "
                "scores can lie below it. Load them as -inf.",
                lambda x, low=low, sums=sums: _padded(x, fill=-low, in_sum=sums),
            )
            for _, low in LOW_NUMBERS
            for sums in (True, False)
        ),
        *(
            Mistake(name, SAYS[name], lambda x, wrong=wrong: _by_lse(x, wrong))
            for name, wrong in (
                ("lse is only l", lambda m, l_sum: l_sum),
                ("lse is ln(l)", lambda m, l_sum: np.log(l_sum)),
                ("lse is m + l", lambda m, l_sum: m + l_sum),
                ("lse is ln(m + l)", lambda m, l_sum: np.log(m + l_sum)),
                ("log2 where ln is meant", lambda m, l_sum: m + np.log2(l_sum)),
            )
        ),
        *Mistake.ways(BASES, SAYS[BASES], *(partial(_mixed, above=a) for a in (True, False))),
        Mistake(
            "not divided by the sum",
            "The exponentials are not divided by their sum: each row must add up to 1.",
            lambda x: np.exp(as_float64(x) - as_float64(x).max(axis=1, keepdims=True)),
        ),
        Mistake(
            "2 in place of e",
            "tl.exp2 is a power of 2: exp2(s) is exp(s * ln 2). Use tl.exp, or multiply the scores "
            "by log2(e) first.",
            partial(_weighed, wrong=lambda s: np.exp2(s) / np.exp2(s).sum(axis=1, keepdims=True)),
        ),
        Mistake(
            "divided by the sum of the scores",
            "The sum is taken of the scores: add up the exponentials, p.",
            partial(_weighed, wrong=None),
        ),
        Mistake(
            "divided by the mean, not by the sum",
            "The exponentials are divided by their mean: each row must add up to 1.",
            partial(_weighed, wrong=lambda s: np.exp(s) / np.exp(s).mean(axis=1, keepdims=True)),
        ),
        Mistake(
            "the scores have the other sign",
            "The smallest score has the largest weight: it is exp(s - max), not exp(min - s).",
            lambda x: _softmax(-as_float64(x)),
        ),
        Mistake(
            "the scores are scaled",
            "Here the softmax of the scores as they are is asked for: no 1 / sqrt(n_cols).",
            lambda x: _softmax(as_float64(x) / np.sqrt(x.shape[1])),
        ),
        Mistake(
            "the logarithm of the softmax",
            "This is s - max - log(sum): the weights themselves are p / sum(p).",
            partial(_weighed, wrong=lambda s: s - np.log(np.exp(s).sum(axis=1, keepdims=True))),
        ),
        Mistake(
            "every program works on the first row",
            "The address does not depend on tl.program_id(0): the row starts at row * x_row.",
            lambda x: np.repeat(_softmax(x)[:1], len(x), axis=0),
        ),
    ),
)
