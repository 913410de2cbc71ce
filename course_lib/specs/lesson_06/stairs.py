"""Exercise 6.5: where a loop ends, a tile turned round, the type of what is stored."""

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
    moves_all_itself,
    stored_whole,
    was_launched,
)
from course_lib.judging.least import Least, counted
from course_lib.judging.load_map import Cut
from course_lib.judging.misconceptions import STARTS_LOW, ZERO_AT_LEAST
from course_lib.judging.other_statistics import OTHER_STATISTICS, Statistic
from course_lib.judging.spec import FAR, JUMPS, REMAINDER, Case, Exercise, Mistake, Observed, table
from course_lib.judging.tolerance import as_float64

Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]
End = Callable[[int, int, int, int], int]
Fold = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def _sees(i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Return whether row i sees column j."""
    return j <= 2 * i + 1


def _last_row(tile: int, block_rows: int, block_cols: int, n_cols: int) -> int:
    """Return the first column that no row of a tile sees; n_cols at most."""
    return min(n_cols, 2 * (tile + 1) * block_rows)


def _of_all(tiles: np.ndarray, met: np.ndarray, block_rows: int) -> np.ndarray:
    """Return each row's maximum over its tiles (rows, tiles, columns), the first ``met`` of them.

    Everywhere else stands -inf.
    """
    top: np.ndarray = tiles.max((1, 2))
    return top


def _rounded(x: np.ndarray, half: bool) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float16 if half else np.float32).astype(np.float64)


def _turned(
    x: Any,
    *,
    half: bool,
    block_rows: int,
    block_cols: int,
    sees: Rule = _sees,
    end: End = _last_row,
    hidden: float = -np.inf,
    past: float = -np.inf,
    stores: Callable[[np.ndarray, bool], np.ndarray] = _rounded,
    compares: Callable[[np.ndarray, bool], np.ndarray] = _rounded,
    turn: Callable[[np.ndarray], np.ndarray] = np.transpose,
    fold: Fold = _of_all,
) -> tuple[np.ndarray, np.ndarray]:
    """Return (out, top), or what comes of another rule, end, type or way to turn a tile.

    ``past``: what stands beside the last column. ``stores`` makes the numbers of out, ``compares``
    those of which ``fold`` makes top.
    """
    x = as_float64(x)
    n_rows, n_cols = x.shape
    tiles = range(-(-n_rows // block_rows))
    ends = np.array([end(t, block_rows, block_cols, n_cols) for t in tiles])
    ends = -(-ends // block_cols) * block_cols  # whole tiles
    x = np.pad(x, ((0, 0), (0, -n_cols % block_cols)), constant_values=past)
    i, j = np.arange(n_rows)[:, None], np.arange(x.shape[1])[None, :]
    loaded = j < ends[i // block_rows]
    kept = np.where(sees(i, j), x, hidden)
    out = np.where(loaded, stores(kept, half), -np.inf)[:, :n_cols]
    seen = np.where(loaded, compares(kept, half), -np.inf)
    met = loaded[:, ::block_cols].sum(axis=1)
    top = fold(seen.reshape(n_rows, -1, block_cols), met, block_rows)
    if turn is np.transpose:
        return out.T, top
    return _tile_by_tile(out, block_rows, block_cols, turn), top


def _tile_by_tile(
    x: np.ndarray, block_rows: int, block_cols: int, turn: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return x.T, made of tiles that are turned in another way, as far as their shapes fit."""
    n_rows, n_cols = x.shape
    pad = ((0, -n_rows % block_rows), (0, -n_cols % block_cols))
    x = np.pad(x, pad, constant_values=-np.inf)
    out = np.empty(x.shape[::-1])
    for r in range(0, n_rows, block_rows):
        for c in range(0, n_cols, block_cols):
            tile = turn(x[r : r + block_rows, c : c + block_cols])
            out[c : c + block_cols, r : r + block_rows] = tile
    return out[:n_cols, :n_rows]


def _cases(rng: Generator) -> list[Case]:
    def case(
        name: str, rows: int, cols: int, tile: tuple[int, int], half: bool, **how: Any
    ) -> Case:
        size, around = how.pop("size", 1.0), how.pop("around", 0.0)
        x = around + size * rng.standard_normal((rows, cols))
        if loud := how.pop("hidden", ()):
            hidden = ~_sees(np.arange(rows)[:, None], np.arange(cols)[None, :])
            x[hidden] = np.resize(loud, hidden.sum())
        kwargs = {"half": half, "block_rows": tile[0], "block_cols": tile[1]}
        kind = "float16" if half else "float32"
        name = f"{name}, in tiles of {tile[0]} x {tile[1]}, stored as {kind}"
        return Case(name, (draw.tensor(x),), kwargs, **how)

    return [
        # square tiles fit the wrong way round, too
        case("16 x 32, some beyond the numbers of float16", 16, 32, (8, 8), False, size=5e4),
        case("16 x 32, some beyond the numbers of float16", 16, 32, (4, 8), True, size=5e4),
        case("24 x 40", 24, 40, (8, 16), True),
        case("24 x 48, all negative", 24, 48, (8, 4), False, around=-9.0),
        case("20 x 12, all negative, more rows than columns", 20, 12, (4, 8), True, around=-9.0),
        case("17 x 33: one more than whole tiles",
             17, 33, (8, 16), False, shows=frozenset({REMAINDER})),
        case("20 x 12, far below any number that stands for -inf",
             20, 12, (4, 8), False, around=-1e33, size=1e31, shows=frozenset({FAR})),
        case("16 x 32, NaN and infinite where no row sees it",
             16, 32, (8, 16), False, hidden=(np.inf, np.nan, -np.inf)),
        case("5 x 7", 5, 7, (1, 1), False),
        case("64 x 100", 64, 100, (16, 32), True, compiled=True),
        case("64 x 100", 64, 100, (16, 32), False),
        case("16 x 32", 16, 32, (4, 16), False,
             refused="a tile has 16 columns, while the first program ends with 7: no tile may "
             "be wider than 2 * ROWS"),
        case("16 x 32", 16, 32, (2, 16), False,
             refused="a tile has 16 columns, while the first program ends with 3: no tile may "
             "be wider than 2 * ROWS"),
        *(
            case(f"{rows} x {cols}", rows, cols, (block, max(1, int(block * one["wide"]))),
                 one["half"])
            for one in sizes.related(
                rng, 8, rows=sizes.LENGTHS, cols=sizes.BESIDE, block=(1, 2, 4, 8, 16),
                wide=(0.5, 1, 2), half=(True, False),
            )
            for block in [one["block"]]
            for rows in [one["rows"](block)]
            for cols in [max(2, one["cols"](2 * rows))]
        ),
    ]  # fmt: skip


_NAMES = ("`out`", "`top`")


def _judge(case: Case, observed: Observed, expected: Any) -> Finding | None:
    import torch

    result = observed.result
    if not isinstance(result, tuple | list) or len(result) != 2:
        return formal_fault(result, expected, torch.float32)
    dtypes = (torch.float16 if case.kwargs["half"] else torch.float32, torch.float32)
    axes = (("row", "column"), ("row",))
    parts = list(zip(result, expected, dtypes, _NAMES, axes, strict=True))
    for got, wanted, dtype, name, _ in parts:
        if fault := formal_fault(got, wanted, dtype):
            says = f"{name}: {fault.says}"
            return Finding(fault.property, says, look=fault.look, numbers_right=True)
    for got, wanted, _, name, of in parts:
        if finding := array_finding(got, wanted, relative=0.0, name=name, axes=of):
            return finding
    return None


def _seen(case: Case) -> list[tuple[int, int]]:
    """Return (rows, first column that none of them sees) of each tile of rows."""
    n_rows, n_cols = case.args[0].shape
    block = case.kwargs["block_rows"]
    return [
        (min(block, n_rows - t * block), _last_row(t, block, 0, n_cols))
        for t in range(-(-n_rows // block))
    ]


def _once(case: Case) -> Least:
    rows, cols = case.kwargs["block_rows"], case.kwargs["block_cols"]
    loads = sum(n * end for n, end in _seen(case))
    return Least(
        rule="each tile that some row sees is loaded once and stored once, and no other; top is "
        "stored once",
        loads={"x": loads},
        stores=loads + len(case.args[0]),
        tiles={"x": (f"block_rows={rows}, block_cols={cols}", rows * cols)},
        idle=False,
        share=("a tile of rows", rows * (case.args[0].shape[1] + 1)),
    )


def _cuts(case: Case) -> dict[str, Cut]:
    tile = case.kwargs["block_rows"], case.kwargs["block_cols"]
    across = -(-case.args[0].shape[1] // tile[1])
    times = [[int(j * tile[1] < end) for j in range(across)] for _, end in _seen(case)]
    return {"x": Cut(tile, np.array(times))}


def _exact(x: np.ndarray, half: bool) -> np.ndarray:
    return x


def _always_half(x: np.ndarray, half: bool) -> np.ndarray:
    return _rounded(x, True)


def _of_the_first(tiles: np.ndarray, met: np.ndarray, block_rows: int) -> np.ndarray:
    """Return the maximum of the first tile of which a row sees something."""
    each = tiles.max(axis=2)
    first = np.isfinite(each).argmax(axis=1)
    return np.take_along_axis(each, first[:, None], 1)[:, 0]


def _of_the_last(tiles: np.ndarray, met: np.ndarray, block_rows: int) -> np.ndarray:
    return np.take_along_axis(tiles.max(axis=2), met[:, None] - 1, 1)[:, 0]


def _of_all_rows(tiles: np.ndarray, met: np.ndarray, block_rows: int) -> np.ndarray:
    tops, starts = tiles.max((1, 2)), np.arange(0, len(tiles), block_rows)
    return np.repeat(np.maximum.reduceat(tops, starts), block_rows)[: len(tops)]


def _largest_of(
    statistic: Statistic, tiles: np.ndarray, met: np.ndarray, block_rows: int
) -> np.ndarray:
    """Return the largest of what a statistic makes of each tile's rows."""
    return np.asarray(statistic(tiles).max(axis=1))


_WRONG_MAXIMA = table(
    ("m is never updated",
     "it stays as the first tile made it: m = tl.maximum(m, tl.max(kept, 1)) in every tile.",
     _of_the_first),
    ("m is never updated", "it stays -inf: m = tl.maximum(m, tl.max(kept, 1)) in every tile.",
     lambda tiles, met, block_rows: np.full(len(tiles), -np.inf)),
    *((name, says, partial(_largest_of, statistic)) for name, says, statistic in OTHER_STATISTICS),
    ("each tile uses its own maximum",
     "each tile throws the maximum of those before away: m = tl.maximum(m, tl.max(kept, 1)).",
     _of_the_last),
    ("one maximum for the whole tile",
     "tl.max(kept) is one number for all rows: tl.max(kept, 1) has one for each.",
     _of_all_rows),
    *((name, "all that a row sees may be smaller than the number with which m starts: -inf.",
       *(lambda tiles, met, block_rows, low=low: np.maximum(tiles.max((1, 2)), -low)
         for low in lows))
      for name, lows in ((ZERO_AT_LEAST, [0.0]), (STARTS_LOW, [low for _, low in LOW_NUMBERS]))),
)  # fmt: skip
_RULE = "Row i sees the columns j <= 2 * i + 1."


def _within_the_tile(x: Any, *, of_rows: bool, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return what comes of a rule for the numbers of rows, or of columns, in their tile."""
    rows, cols = (how["block_rows"], 1 << 30) if of_rows else (1 << 30, how["block_cols"])
    return _turned(x, sees=lambda i, j: _sees(i % rows, j % cols), **how)


def _largest_of_all(x: Any, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the right out, and in top what its rows do not see as well."""
    return _turned(x, **how)[0], _turned(x, **how, sees=lambda i, j: i == i)[1]


def _first_rows(x: Any, *, block_rows: int, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return what there is if nothing is stored for any rows but the first; out is filled."""
    out, top = _turned(x, block_rows=block_rows, **how)
    out[:, block_rows:], top[block_rows:] = -np.inf, np.nan
    return out, top


def _stored_in_a_square(x: Any, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return what there is if columns are stored up to n_rows, and rows up to n_cols."""
    out, top = _turned(x, **how)
    n_cols, n_rows = out.shape
    out[n_rows:], out[:, n_cols:] = -np.inf, -np.inf
    return out, top


_MISTAKES = Mistake.table(
    ("the maximum is taken before the cast",
     "top is larger or smaller than what is stored in out. Take the maximum of `kept`, once it has "
     "out's type.",
     partial(_turned, compares=_exact)),
    ("the maximum counts hidden numbers",
     "top is the largest number that is stored in out: what a row does not see is no part of it. "
     "Hide first, by where, and take the maximum of that.",
     _largest_of_all),
    ("always float16",
     "The type is written into the kernel: out.dtype.element_ty is that of this launch.",
     partial(_turned, stores=_always_half, compares=_always_half)),
    ("the tile is not turned",
     "Rows of the tile became rows of out: where a tile is square, that fits. tl.trans(kept) turns "
     "it.",
     partial(_turned, turn=lambda tile: tile.reshape(tile.shape[::-1]))),
    ("what a row sees is -inf",
     "tl.where(condition, a, b) takes a where the condition holds: is it the wrong way round, or "
     f"does it hold nowhere? Or does the loop not run? {_RULE}",
     partial(_turned, sees=lambda i, j: j > 2 * i + 1),
     partial(_turned, sees=lambda i, j: j < 0)),
    ("rows and columns are exchanged in the rule", _RULE + " i is the row's number, rows[:, None].",
     partial(_turned, sees=lambda i, j: i <= 2 * j + 1),
     partial(_turned, sees=lambda i, j: i >= 2 * j + 1)),
    ("a stair is too low or too high", _RULE + " So row 0 sees two columns, and each row two more.",
     partial(_turned, sees=lambda i, j: j < 2 * i + 1),
     partial(_turned, sees=lambda i, j: j <= 2 * i + 2),
     partial(_turned, sees=lambda i, j: j <= 2 * i + 3),
     partial(_turned, sees=lambda i, j: j < 2 * i)),
    ("the stairs of the lesson",
     "In the lesson a row saw one column more than the row above. Here it is two: " + _RULE,
     partial(_turned, sees=lambda i, j: j <= i + 2),
     partial(_turned, sees=lambda i, j: j <= i + 1),
     partial(_turned, sees=lambda i, j: j <= i)),
    ("rows or columns are counted within the tile",
     "i and j are the numbers of x's rows and columns, `rows` and `cols`: they go on from tile to "
     "tile.",
     partial(_within_the_tile, of_rows=True),
     partial(_within_the_tile, of_rows=False)),
    ("a hidden number is 0",
     "In a row of negative numbers 0 is the largest. A hidden number is -inf.",
     partial(_turned, hidden=0.0)),
    ("a hidden number is a large negative number", "It is no -inf: a real number can lie below it.",
     *(partial(_turned, hidden=-low) for _, low in LOW_NUMBERS)),
    ("a hidden number is 0",
     "A tile has places past the last column, and rows that would see them. Load them as -inf, "
     "which is no largest number.",
     partial(_turned, past=0.0)),
    ("a hidden number is a large negative number",
     "A tile has places past the last column, and rows that would see them. Load them as -inf: a "
     "real number can lie below any other.",
     *(partial(_turned, past=-low) for _, low in LOW_NUMBERS)),
    *((name, says, partial(_turned, fold=fold)) for name, says, fold in _WRONG_MAXIMA),
    ("every program works on the first rows", "The rows do not depend on the program: `rows` does.",
     _first_rows),
    ("rows and columns are exchanged in the limits of the store",
     "The mask of the store lets columns through up to n_rows, and rows up to n_cols. x's rows end "
     "at n_rows whichever way they lie: turn the mask of the load with the tile.",
     _stored_in_a_square),
    ("nothing is hidden",
     "The tile goes into out as it was loaded: tl.where is to hide what a row does not see.",
     partial(_turned, sees=lambda i, j: j >= 0)),
    ("the last tile is dropped",
     "The last tile of the loop may be short: range(0, end, COLS) reaches it.",
     partial(_turned, end=lambda t, r, c, n: _last_row(t, r, c, n) // c * c)),
    ("the loop ends too early",
     "The last row of the tile sees furthest. Its number is (tile + 1) * ROWS - 1, and it sees two "
     "columns for each row up to it.",
     partial(_turned, end=lambda t, r, c, n: min(n, 2 * (t + 1) * r - 1)),
     partial(_turned, end=lambda t, r, c, n: min(n, 2 * t * r)),
     partial(_turned, end=lambda t, r, c, n: min(n, 2 * t * r + 2)),
     partial(_turned, end=lambda t, r, c, n: min(n, (t + 1) * r)),
     partial(_turned, end=lambda t, r, c, n: min(n, (t + 1) * r + 2)),
     partial(_turned, end=lambda t, r, c, n: min(n, 2 * (t + 1) * c))),
)  # fmt: skip


TURNED_STAIRS = Exercise.of(
    "6.5",
    cases=_cases,
    truth=_turned,
    judge=in_turn(
        stored_whole(_judge, *_NAMES, fill=MINUS_INF),
        was_launched,
        gives_every_lane_a_value("larger than all numbers of a row"),
        counted(_once),
        moves_all_itself,
    ),
    spared={JUMPS: "no exp is taken"},
    kind="kernel",
    cuts=_cuts,
    mistakes=_MISTAKES,
)
