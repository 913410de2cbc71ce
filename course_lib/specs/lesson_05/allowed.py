"""Exercise 5.5: a tile of rows, `tl.where` and a maximum along axis 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.slips import LOW_NUMBERS
from course_lib.judging import cases as draw
from course_lib.judging import sizes
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.kernel_judge import (
    MINUS_INF,
    formal_fault,
    gives_every_lane_a_value,
    in_turn,
    stored_whole,
    was_launched,
)
from course_lib.judging.least import Least, counted
from course_lib.judging.load_map import Cut
from course_lib.judging.misconceptions import TIMES_INFINITY
from course_lib.judging.other_statistics import OTHER_STATISTICS, Statistic
from course_lib.judging.spec import REMAINDER, STORED, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64
from course_lib.specs.lesson_05.softmax import in_block


def _allowed(x: Any, *, limit: float, block_rows: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = as_float64(x)
    kept = np.where(x <= limit, x, -np.inf)
    return kept, kept.max(axis=1)


def _cases(rng: Generator) -> list[Case]:
    def case(name: str, x: Any, block: int, limit: float | None = None, **flags: Any) -> Case:
        x = draw.tensor(x)
        if limit is None:  # a score that is just allowed, and one that just is not
            allowed, above = np.argsort(x.numpy().ravel())[int(0.7 * (x.numel() - 1)) :][:2]
            limit = float(x.view(-1)[allowed])
            x.view(-1)[above] = float(np.nextafter(np.float32(limit), np.float32(np.inf)))
        kwargs = {"limit": limit, "block_rows": block}
        return Case(f"{name}, in tiles of {block}", (x,), kwargs, **flags)

    def drawn(rows: int, cols: int) -> np.ndarray:
        return np.asarray(rng.standard_normal((rows, cols)))

    below = drawn(10, 21) - 6
    below[:, rng.integers(21)] = 3  # what is allowed is negative, and the limit is not
    none = drawn(9, 12)
    none[4] += 20
    some = drawn(8, 8)
    some[::3] -= 5  # rows of which nothing is hidden
    related = sizes.related(
        rng, 7, rows=sizes.LENGTHS, cols=sizes.WIDTHS, block=(1, 2, 4, 8, 16, 32)
    )
    tile = drawn(12, 10)
    tile[4:8] += 20
    return [
        case("8 rows of 8 scores", some, 8),  # whole, and axis 0 is as long as axis 1
        case("12 rows of 16 scores, limit 0", drawn(12, 16), 4, 0.0),
        case("10 rows of 21 scores, and all that are allowed are negative", below, 4, 0.5),
        case("9 rows of 12 scores; in row 4 none is allowed", none, 4),
        case("17 rows of 33 scores: one row more than whole tiles",
             drawn(17, 33), 8, shows=frozenset({REMAINDER})),
        case("64 rows of 100 scores", drawn(64, 100), 16, compiled=True),
        case("300 rows of 5 scores: many programs", drawn(300, 5), 4),
        *(case(f"3 rows of 33 scores: {name}", x, 2, shows=shows)
          for name, x, shows in draw.hard_rows(rng, 33, by=150)),
        *(_sized(case, drawn(one["rows"](one["block"]), one["cols"]), one["block"])
          for one in related),
        case("6 rows of 10 scores, every one is allowed", drawn(6, 10), 4, float("inf")),
        case("12 rows of 10 scores; in a whole tile none is allowed", tile, 4, 8.0),
        case("5 rows of 7 scores, none is allowed", drawn(5, 7), 4, float("-inf")),
    ]  # fmt: skip


def _sized(case: Any, x: np.ndarray, block: int) -> Case:
    """Return a case in which a score is above the limit, so that it is not its own answer."""
    if x.size == 1:
        return case("1 row of 1 score", x, block, float(np.floor(x[0, 0])) - 1)
    return case(f"{x.shape[0]} rows of {x.shape[1]} scores", x, block)


_NAMES = ("`kept`", "`top`")


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    import torch

    if fault := formal_fault(observed.result, expected, torch.float32):
        return fault
    for got, wanted, name in zip(observed.result, expected, _NAMES, strict=True):
        axes = ("row", "column")[: wanted.ndim]
        if finding := array_finding(got, wanted, relative=0.0, name=name, axes=axes):
            return finding
    return None


def _stored_both(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that the kernel stores as many numbers as both results have."""
    if observed.ledger is None or not observed.ledger.launches:
        return None
    stored = sum(sum(run.stored.values()) for run in observed.ledger.launches)
    asked = sum(part.size for part in expected)
    if stored >= asked:
        return None
    return Finding(
        STORED,
        f"the numbers are right, but your kernel stores {stored:,} numbers, and `kept` and `top` "
        f"have {asked:,}: let it store both, `top` too.",
        numbers_right=True,
    )


def _once(case: Case) -> Least:
    (rows, cols), block = case.args[0].shape, case.kwargs["block_rows"]
    return Least(
        rule="each score is loaded once; each score of kept and each row's top is stored once",
        loads={"x": rows * cols},
        stores=rows * (cols + 1),
        idle=False,
        share=("a tile of rows", block * (cols + 1)),
        whole=(f"block_rows={block}", min(block, rows) * (cols + 1)),
    )


def _cuts(case: Case) -> dict[str, Cut]:
    return {"x": Cut((case.kwargs["block_rows"], case.args[0].shape[1]))}


def _other(
    x: Any,
    *,
    limit: float,
    block_rows: int = 0,
    hidden: float = -np.inf,
    allows: Any = np.less_equal,
    top: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return kept and top with other hidden scores, another rule, or another ``top(kept, x)``."""
    x = as_float64(x)
    kept = np.where(allows(x, limit), x, hidden)
    return kept, kept.max(axis=1) if top is None else top(kept, x)


def _first_tile(x: Any, *, limit: float, block_rows: int) -> Any:
    """Return what programs give that all load the first tile, and store where they should."""
    x = as_float64(x)
    return _allowed(np.resize(x[:block_rows], x.shape), limit=limit)


def _one_top(x: Any, *, limit: float, block_rows: int) -> tuple[np.ndarray, np.ndarray]:
    kept, top = _allowed(x, limit=limit)
    starts = np.arange(0, len(top), block_rows)
    return kept, np.repeat(np.maximum.reduceat(top, starts), block_rows)[: len(top)]


def _along_axis_0(
    x: Any, *, limit: float, block_rows: int, at_columns: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return kept and each tile's maxima by columns, as many as it has rows.

    ``at_columns``: stored at the numbers of columns, so that the last program's stay.
    """
    kept, _ = _allowed(x, limit=limit)
    tiles = [
        in_block(kept[at : at + block_rows], -np.inf) for at in range(0, len(kept), block_rows)
    ]
    if at_columns:
        maxima = tiles[-1].max(axis=0)[: len(kept)]
        return kept, np.concatenate([maxima, np.full(len(kept) - len(maxima), np.nan)])
    return kept, np.concatenate([np.resize(tile.max(axis=0), len(tile)) for tile in tiles])


def _half(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return np.asarray(x).astype(np.float16).astype(np.float64)


def _times_infinity(x: Any, *, limit: float, add: bool, **_rest: Any) -> Any:
    """Return what (x > limit) * -inf makes, added to x or to what x times the mask is."""
    x = as_float64(x)
    with np.errstate(invalid="ignore"):
        kept = (x if add else x * (x <= limit)) + (x > limit) * -np.inf
    return kept, kept.max(axis=1)


_TOPS: tuple[Callable[[Statistic, np.ndarray, np.ndarray], np.ndarray], ...] = (
    lambda statistic, kept, x: statistic(kept),
    lambda statistic, kept, x: statistic(x),
    lambda statistic, kept, x: statistic(in_block(kept, -np.inf)),
)

_MISTAKES = Mistake.table(
    ("what is allowed is -inf",
     "tl.where(condition, a, b) takes a where the condition holds: is it the wrong way round? Or "
     "does the mask of the load let nothing in?",
     partial(_other, allows=np.greater)),
    ("nothing is hidden",
     "The tile goes into `kept` as it was loaded: tl.where is to hide what is above the limit.",
     partial(_other, allows=lambda x, limit: x == x)),
    ("the size of a score is compared, not the score",
     "A score far below 0 is below the limit, too: no tl.abs.",
     partial(_other, allows=lambda x, limit: np.abs(x) <= limit)),
    ("scores near the limit are not compared exactly",
     "Is the limit moved a little, or are scores compared in float16, which has no number for each "
     "of them? Compare the scores as they were loaded with the limit as it is given.",
     partial(_other, allows=lambda x, limit: _half(x) <= limit),
     partial(_other, allows=lambda x, limit: _half(x) <= _half(limit))),  # as Triton 3.9 does
    ("the limit itself is hidden", "A score that equals the limit is allowed: <=, not <.",
     partial(_other, allows=np.less)),
    ("a hidden score is 0",
     "A score of 0 is a score like any other, and in a row of negative scores it is the largest. A "
     "hidden score is -inf.",
     partial(_other, hidden=0.0)),
    ("a hidden score is a large negative number", "It is no -inf: a real score can lie below it.",
     *(partial(_other, hidden=-low) for _, low in LOW_NUMBERS),
     *(partial(_other, top=lambda kept, x, low=low: in_block(kept, -low).max(axis=1))
       for _, low in LOW_NUMBERS)),
    ("clipped, not hidden",
     "Scores above the limit became the limit. They are to be left out: -inf.",
     lambda x, *, limit, **_: _other(x, limit=limit, hidden=limit)),
    ("the maximum counts hidden scores",
     "Each row's maximum is that of all scores. Take it of the tile that tl.where gave.",
     partial(_other, top=lambda kept, x: x.max(axis=1))),
    ("the maximum runs along axis 0",
     "tl.max(tile, 0) is one number for each column. Along axis 1 there is one for each row.",
     partial(_other, top=lambda kept, x: np.resize(kept.max(axis=0), len(kept))),
     _along_axis_0, partial(_along_axis_0, at_columns=True)),
    ("rows and columns are exchanged in the addresses",
     "from one row to the next it is n_cols numbers, and 1 from one column to the next.",
     partial(_other, top=lambda kept, x: kept.reshape(kept.shape[::-1]).max(axis=0))),
    (TIMES_INFINITY,
     "A mask that multiplies -inf makes NaN wherever it is 0: choose with tl.where.",
     *(partial(_times_infinity, add=add) for add in (True, False))),
    ("one maximum for the whole tile",
     "tl.max(tile) is one number for all rows: tl.max(tile, 1) has one for each.",
     _one_top),
    ("masked means score zero",
     "The places past the end of a row entered the maximum with score 0. Load them as -inf.",
     partial(_other, top=lambda kept, x: in_block(kept, 0.0).max(axis=1))),
    ("empty places hold the limit",
     "The places past the end of a row entered the maximum with the limit, which is allowed. Load "
     "them as -inf.",
     lambda x, *, limit, **_: _other(
         x, limit=limit, top=lambda kept, x: in_block(kept, limit).max(axis=1))),
    ("a very negative maximum is replaced",
     "The maximum is never below some number, 0 or another, but the scores of a row can be.",
     partial(_other, top=lambda kept, x: np.maximum(kept.max(axis=1), 0))),
    *((name, says, partial(_other, top=partial(top, statistic)))
      for name, says, statistic in OTHER_STATISTICS for top in _TOPS),
    ("every program works on the first rows",
     "The rows do not depend on tl.program_id(0): use `at`, which does.",
     _first_tile),
)  # fmt: skip


ALLOWED_SCORES = Exercise.of(
    "5.5",
    cases=_cases,
    truth=_allowed,
    judge=in_turn(
        stored_whole(_judge, *_NAMES, fill=MINUS_INF),
        _stored_both,
        was_launched,
        gives_every_lane_a_value("a score that is allowed"),
        counted(_once),
    ),
    kind="kernel",
    cuts=_cuts,
    mistakes=_MISTAKES,
)
