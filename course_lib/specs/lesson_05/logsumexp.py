"""Exercise 5.4: the log-sum-exp of a row of any length."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.slips import LOW_NUMBERS, SLIPS, Slip, stream
from course_lib.judging import cases as draw
from course_lib.judging.kernel_judge import MINUS_INF, float32_judge, in_turn, several_programs
from course_lib.judging.least import Least, counted
from course_lib.judging.load_map import Cut
from course_lib.judging.misconceptions import (
    ALL_NAN,
    ALPHA_IS_1,
    BASES_SLIPS,
    CLIPPED,
    CLIPPED_SLIPS,
    NO_MAXIMUM_SLIPS,
    NOT_THE_MAXIMUM,
    NOT_THE_MAXIMUM_SLIPS,
    ONLY_RISES,
    SAYS,
    STARTS_LOW,
    STARTS_LOW_SLIPS,
    ZERO_AT_LEAST,
    order_matters,
)
from course_lib.judging.spec import Case, Exercise, Mistake
from course_lib.judging.tolerance import as_float64
from course_lib.specs.lesson_05.softmax import cut_off


def _logsumexp(x: Any, *, block: int = 64) -> np.ndarray:
    x = as_float64(x)
    m = x.max(axis=1)
    return m + np.log(np.exp(x - m[:, None]).sum(axis=1))


def _long_cases(rng: Generator) -> list[Case]:
    def drawn(rows: int, n: int, around: float = 0.0, rise: float = 0.0) -> Any:
        return draw.tensor(around + np.linspace(0, rise, n) + rng.standard_normal((rows, n)))

    def case(name: str, x: Any, block: int, **flags: Any) -> Case:
        return Case(name, (x,), {"block": block}, **flags)

    by_hand = draw.tensor([[1, 3, 2, 5], [2, 5, 1, 3]])
    return [
        case("the rows [1, 3, 2, 5] and [2, 5, 1, 3] in blocks of 2", by_hand, 2),
        case("3 rows of 64 rising scores in blocks of 16", drawn(3, 64, rise=6), 16),
        case("3 rows of 40 scores, one of them far below 0, in blocks of 16",
             draw.tensor(draw.one_far_below(rng)), 16),
        case("3 rows of 70 scores, all negative; the last of 5 blocks is short",
             drawn(3, 70, around=-8), 16),
        case("2 rows of 150 scores near +100", drawn(2, 150, around=100), 64),
        case("2 rows of 150 scores that rise from -300 to +300",
             drawn(2, 150, around=-300, rise=600), 64),
        case("2 rows of 150 scores that fall from +100 to -100",
             drawn(2, 150, around=100, rise=-200), 64),
        case("2 rows of 200 scores near -150", drawn(2, 200, around=-150), 64),
        case("3 rows of 5 scores in one block of 64", drawn(3, 5), 64),
        case("3 rows of 90 scores that are a part of a wider table",
             drawn(3, 128, rise=5)[:, 9:99], 32, compiled=True),
        *(case(f"3 rows of 65 scores in blocks of 16: {name}", draw.tensor(x), 16, shows=shows)
          for name, x, shows in draw.hard_rows(rng, 65, by=150)),
        *(case(f"{name}, in blocks of {block}", draw.tensor(x), block)
          for block in (64, 1024) for name, x in draw.sized_rows(rng)),
        # 184 exponentials of 84 are more than float32 holds
        case("3 rows of 200 scores in blocks of 16: all but the first block higher by 84",
             draw.tensor(np.where(np.arange(200) < 16, 0, 84) + np.array([[0], [5], [-90]])), 16),
        case(f"3 rows of 200 {draw.CREEP_NAME}",
             draw.tensor(draw.CREEP * np.arange(200) * np.array([[1], [2], [3]])), 16),
        case("2048 scores far below the largest, which count by their number; it is first, or last",
             draw.tensor(_many_below(rng)), 64),
    ]  # fmt: skip


def _many_below(rng: Generator) -> np.ndarray:
    """Return rows of one score of 0, and hundreds each near -8.5, -10.5, -12.5 and -16.5."""
    low = np.repeat([-8.5, -10.5, -12.5, -16.5], 512) + rng.uniform(-0.1, 0.1, 2048)
    return np.array([[0.0, *low], [*low, 0.0]])


def _once(case: Case) -> Least:
    x, block = case.args[0], case.kwargs["block"]
    return Least(
        rule="each score is loaded once, each row's result is stored once",
        loads={"x": x.numel()},
        stores=len(x),
        tiles={"x": (f"block={block}", block)},
        idle=False,
    )


def _long(
    *slips: str,
    base: float = math.e,
    end: Callable[[int, int], int] = lambda n, block: n,
    lanes: bool = False,
) -> list[Callable[..., Any]]:
    """Return log-sum-exps in a loop, in float32, with slips, another base or end (n, block).

    ``lanes``: each lane of a block has notes of its own, which are put together rightly.
    """

    def logsumexp(loop: Slip, x: Any, *, block: int = 64) -> np.ndarray:
        s = (as_float64(x) * np.log(base)).astype(np.float32)
        s = s[:, : end(s.shape[1], block)]
        nothing = np.zeros((s.shape[1], 0))  # no values: only m and l_sum are asked for
        if not lanes:
            return stream(loop, s, nothing, block, guarded=False not in loop.guards)[1]
        fill = loop.fill if loop.past_end else -np.inf
        of_lanes = _lanes(s, block, fill).swapaxes(1, 2).reshape(len(s) * block, -1)
        nothing = np.zeros((of_lanes.shape[1], 0))
        lse = stream(loop, of_lanes, nothing, 1, guarded=False not in loop.guards)[1]
        return np.asarray(np.logaddexp.reduce(lse.reshape(-1, block), axis=1))

    loops = [SLIPS[slip] for slip in slips or ("right",)]
    turned = [replace(loop, backwards=True) for loop in loops if slips and order_matters(loop)]
    return [partial(logsumexp, loop) for loop in loops + turned]


def _lanes(s: np.ndarray, block: int, fill: float = -np.inf) -> np.ndarray:
    """Return rows as what each lane of a block meets in each step, (rows, steps, block)."""
    s = np.pad(s, ((0, 0), (0, -s.shape[1] % block)), constant_values=fill)
    return s.reshape(len(s), -1, block)


def _one_more(x: Any, *, block: int = 64) -> np.ndarray:
    m = as_float64(x).max(axis=1)
    return m + np.log1p(np.exp(_logsumexp(x) - m))


def _mean_of_blocks(x: Any, *, block: int = 64, of: Any = np.mean) -> np.ndarray:
    starts = range(0, x.shape[1], block)
    return np.asarray(of([_logsumexp(x[:, start : start + block]) for start in starts], axis=0))


def _first_block_again(x: Any, *, block: int = 64) -> np.ndarray:
    """Return what a loop makes whose every step reads the first block."""
    x = as_float64(x)
    first = _logsumexp(x[:, :block])
    return np.asarray(first + np.log(-(-x.shape[1] // block)))


_OF_LANES = (
    ("the new block is rescaled as well", "rescale_all", "rescale_new"),
    ("each block uses its own maximum", "own_max"),
    ("m forgets the earlier blocks", "latest_max"),
    ("l_sum is not rescaled", "no_rescale_l"),
    ("no maximum is subtracted", *NO_MAXIMUM_SLIPS),
    ("alpha is inverted", "inverse"),
    (NOT_THE_MAXIMUM, "first_max"),
    (ZERO_AT_LEAST, "start_zero"),
    (STARTS_LOW, *STARTS_LOW_SLIPS),
    ("masked means a large negative score", *(f"fill_past_end_{low}" for low, _ in LOW_NUMBERS)),
    ("only the last block counts", "forget_l"),
    ("2 in place of e", *BASES_SLIPS),
)


Join = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _in_log_space(join: Join, x: Any, *, block: int = 64) -> np.ndarray:
    """Return what becomes of one note, ``join(so_far, a block's log-sum-exp, its maximum)``."""
    x = as_float64(x)
    so_far = np.full(len(x), -np.inf)
    for start in range(0, x.shape[1], block):
        s = x[:, start : start + block]
        so_far = join(so_far, _logsumexp(s), s.max(axis=1))
    return so_far


def _joined(
    log: Callable[..., Any] = np.log, exp_of_old: Any = np.exp, exp_of_new: Any = np.exp
) -> Join:
    """Return how two log-sum-exps become one, with another logarithm or exponential."""

    def join(so_far: np.ndarray, own: np.ndarray, top: np.ndarray) -> np.ndarray:
        high = np.maximum(so_far, own)
        return np.asarray(high + log(exp_of_old(so_far - high) + exp_of_new(own - high)))

    return join


_JOINS: tuple[tuple[str, Join], ...] = (
    ("the logarithm is missing", _joined(log=lambda total: total)),
    ("the logarithm has base 2", _joined(log=np.log2)),
    ("2 in place of e", _joined(exp_of_old=np.exp2)),
    ("2 in place of e", _joined(exp_of_new=np.exp2)),
    ("the sum is missing", lambda so_far, own, top: np.maximum(so_far, own)),
    ("the sum is missing", lambda so_far, own, top: _joined()(so_far, top, top)),
    ("the maximum is missing", lambda so_far, own, top: _joined()(so_far, own - top, top)),
    ("only the last block counts", lambda so_far, own, top: own),
    (
        "the logarithms are added",
        lambda so_far, own, top: own + np.where(np.isneginf(so_far), 0, so_far),
    ),
)
_ONE_NOTE = (
    "Of the log-sum-exp so far, a, and a block's, b, the next is log(exp(a) + exp(b)): the larger "
    "of the two, m, plus log(exp(a - m) + exp(b - m))."
)


def _empty_block_first(x: Any, *, block: int = 64) -> np.ndarray:
    """Return what a walk makes that begins with a block past the end where there is none short."""
    lse = _logsumexp(x)
    return lse if x.shape[1] % block else np.full_like(lse, np.nan)


def _lanes_joined(
    by: Callable[..., np.ndarray], x: Any, *, block: int = 64, weighed: bool = True
) -> np.ndarray:
    """Return what notes of the lanes make that are measured against another number in the end.

    Those of a lane without a score are -3.4e38 and 0. If not ``weighed``, they are added as they
    are, each against its own maximum.
    """
    s = _lanes(as_float64(x), block)
    m = np.maximum(s.max(axis=1), -3.4e38).astype(np.float32)
    sums = np.exp(s - m[:, None]).sum(axis=1).astype(np.float32)
    top = by(m, axis=1)
    with np.errstate(all="ignore"):
        shares = np.exp(m - top[:, None]) if weighed else 1.0
        return np.asarray(top + np.log((sums * shares).sum(axis=1)))


_MISTAKES = Mistake.table(
    ("l_sum is not rescaled",
     "When a new maximum arrives, the old sum is measured against the old one: multiply it by "
     f"alpha = exp(m - m_new). {ALPHA_IS_1}",
     *_long("no_rescale_l")),
    ("alpha is inverted",
     "alpha is exp(m_new - m): the past grows where it should shrink. alpha = exp(m - m_new) "
     "is never above 1.",
     *_long("inverse")),
    ("each block uses its own maximum",
     "The exponentials of a block are measured against that block's maximum. Measure them "
     "against m_new, the maximum so far.",
     *_long("own_max")),
    ("each block uses its own maximum",
     "The sums of the blocks are measured against maxima of their own, and added as they are: "
     "measure each against m_new, the maximum so far, and rescale what is old.",
     *_long("own_max_no_rescale")),
    ("m forgets the earlier blocks",
     "The new maximum is that of the last block only. Where scores fall far, alpha overflows: "
     "take the larger of it and m.",
     *_long("latest_max")),
    (ZERO_AT_LEAST,
     "m never falls below the number that it starts at, 0 or another: near -150 every exp(s - m) "
     "is 0. Start at -inf.",
     *_long("start_zero")),
    (STARTS_LOW,
     "m starts at a large negative number, and real scores can lie below it: start at -inf.",
     *_long(*STARTS_LOW_SLIPS)),
    ("no maximum is subtracted",
     "Without a maximum, exp overflows near +100 and vanishes near -150.",
     *_long(*NO_MAXIMUM_SLIPS)),
    ("the last block is never added",
     "What was loaded ahead in the last step is left: add it after the loop.",
     *_long(end=lambda n, block: max((n - 1) // block * block, min(n, block)))),
    ("l is kept in half precision", SAYS["l is kept in half precision"], *_long("half_l")),
    (CLIPPED, SAYS[CLIPPED], *_long(*CLIPPED_SLIPS)),
    (NOT_THE_MAXIMUM,
     "Another number than the largest score so far is subtracted before exp: a mean, the "
     "smallest score, a maximum that never changes, or the log-sum-exp so far. exp overflows "
     "above 88: subtract the larger of the two.",
     *_long(*NOT_THE_MAXIMUM_SLIPS, "mean_of_maxima")),
    cut_off(_logsumexp),
    ("masked means a large negative score",
     "The empty places of the last block entered with a large negative score, but real scores "
     "can lie below it. Load them as -inf.",
     *_long(*(f"{fill}_{low}" for low, _ in LOW_NUMBERS for fill in ("fill", "fill_past_end")))),
    ("masked means score zero",
     "The empty places of the last block entered with score 0. Load them as -inf.",
     *_long("zeros_past_end")),
    ("the short last block is left out",
     "The loop ends before the last, short block: range(0, n, BLOCK) reaches it.",
     *_long(end=lambda n, block: n // block * block)),
    ("only the first block counts",
     "The loop must go on to the end of the row: range(0, n_cols, BLOCK).",
     *_long(end=lambda n, block: block)),
    ("the mean of the exponentials, not their sum",
     "The sum is divided by the number of scores: log(sum(exp(x))) has no mean in it.",
     lambda x, *, block=64: _logsumexp(x) - np.log(x.shape[1])),
    ("1 is added to the sum",
     "l_sum starts at 0, and the logarithm is of l_sum alone: the largest score is in the sum "
     "already.",
     _one_more),
    ("the blocks' answers are averaged",
     "Each block has a log-sum-exp of its own, and their mean is no log-sum-exp: keep m and "
     "l_sum running.",
     _mean_of_blocks),
    ("the blocks' answers are added",
     "Each block has a log-sum-exp of its own, and their sum is no log-sum-exp: keep m and "
     "l_sum running.",
     partial(_mean_of_blocks, of=np.sum)),
    (ONLY_RISES, SAYS[ONLY_RISES].replace("tile", "block").replace("l and o", "l_sum"),
     *_long("only_rises")),
    ("every step reads the first block",
     "The columns do not move with the loop: cols = start + tl.arange(0, BLOCK).",
     _first_block_again),
    ("lse in base 2", "The answer is a natural logarithm: do not divide by ln 2.",
     *_long("lse_in_base_2")),
    ("only the last block counts",
     "l_sum is set anew in each block: add the block's sum to what was there.",
     *_long("forget_l")),
    ("the new block is rescaled as well",
     "alpha brings the old sum to the new maximum; the new block is measured against it "
     "already: l_sum * alpha + the block's sum.",
     *_long("rescale_all")),
    ("2 in place of e",
     "tl.exp2 is a power of 2: use tl.exp and tl.log, or multiply the scores by log2(e) first "
     "and the result by ln 2.",
     *_long("lse_in_base_2", "lse_with_m_in_base_2", base=2.0)),
    ("2 in place of e",
     "One of the exponentials is a power of 2, the others of e: use tl.exp everywhere.",
     *_long(*BASES_SLIPS)),
    ("m + l_sum in the logarithm", "The answer is m + log(l_sum).", *_long("lse_of_m_and_l")),
    ("the sum alone", "This is l_sum: the answer is m + log(l_sum).", *_long("lse_is_l")),
    ("the sum is missing", "m is the largest score only: add log(l_sum).", *_long("lse_is_m")),
    ("the logarithm is missing", "The answer is m + log(l_sum), not m + l_sum.",
     *_long("lse_adds_l")),
    ("the maximum is missing", "log(l_sum) is measured against m: add m at the end.",
     *_long("lse_is_ln_l")),
    ("the logarithm has base 2", "tl.log2 is the logarithm to base 2: use tl.log.",
     *_long("lse_with_log2")),
    ("m is never updated",
     "The loop ends without m = m_new, so the next block sees the old maximum.",
     *_long("keep_max")),
    (ALL_NAN,
     "Each entry of a block keeps notes of its own, and the m of one that has seen no score "
     "yet is -inf: -inf - (-inf) is NaN. Let it start below all, at -3.4e38, without weight.",
     *_long(lanes=True)),
    *((name, "Each entry of a block keeps notes of its own: look at those.",
       *_long(*slips, lanes=True)) for name, *slips in _OF_LANES),
    *((name, _ONE_NOTE, partial(_in_log_space, join)) for name, join in _JOINS),
    (NOT_THE_MAXIMUM,
     "Each entry of a block keeps notes of its own. In the end all are measured against the "
     "largest of their maxima.",
     partial(_lanes_joined, np.min),
     partial(_lanes_joined, np.mean),
     partial(_lanes_joined, lambda m, axis: m[:, 0])),
    ("l_sum is not rescaled",
     "The entries of a block have sums that are measured against maxima of their own: multiply "
     "each by exp(its maximum - m) before you add them.",
     partial(_lanes_joined, np.max, weighed=False)),
    # so late, since other things give NaN too
    (ALL_NAN, SAYS[ALL_NAN], lambda x, *, block=64: np.full(len(x), np.nan)),
    ("one block too many",
     "Where n_cols is a multiple of block, a block without a score is met first: its m is "
     "-inf, and -inf - (-inf) is NaN. There are n_cols / block blocks, rounded up.",
     _empty_block_first),
)  # fmt: skip


LONG_LOGSUMEXP = Exercise.of(
    "5.4",
    cases=_long_cases,
    truth=_logsumexp,
    judge=in_turn(
        float32_judge("the log-sum-exp", 2e-6, logarithm=True, fill=MINUS_INF),
        several_programs,
        counted(_once),
    ),
    kind="kernel",
    cuts=lambda case: {"x": Cut((1, case.kwargs["block"]))},
    mistakes=_MISTAKES,
)
