"""Exercise 6.1: copy a matrix in tiles, by its strides."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding, nan_as_0
from course_lib.judging.kernel_judge import (
    formal_fault,
    in_turn,
    moves_all_itself,
    stored_whole,
    was_launched,
)
from course_lib.judging.least import Least, counted
from course_lib.judging.misconceptions import TIMES_INFINITY
from course_lib.judging.spec import FAR, JUMPS, REMAINDER, Case, Exercise, Mistake, Observed, table
from course_lib.judging.strides import IGNORED, NO_ROW_STRIDE, STRIDES_EXCHANGED
from course_lib.judging.tolerance import as_float64


def _copy_cases(rng: Generator) -> list[Case]:
    def drawn(rows: int, cols: int, dtype: str = "float32") -> Any:
        return draw.tensor(rng.standard_normal((rows, cols)), dtype)

    def case(name: str, x: Any, rows: int, cols: int, **flags: Any) -> Case:
        return Case(name, (x,), {"block_rows": rows, "block_cols": cols}, **flags)

    return [
        case("64 x 32 in tiles of 16 x 32: whole tiles", drawn(64, 32), 16, 32),
        case("37 x 21 in tiles of 16 x 8: short on both sides", drawn(37, 21), 16, 8),
        case("a transposed view, 24 x 40 in tiles of 16 x 32", drawn(40, 24).T, 16, 32),
        case("a part of a wider table, 30 x 20 in tiles of 8 x 16",
             drawn(64, 50)[3:33, 9:29], 8, 16),
        case("every third column, 20 x 12 in tiles of 16 x 8", drawn(20, 36)[:, ::3], 16, 8),
        case("one entry in a tile of 16 x 16", drawn(1, 1), 16, 16),
        case("100 x 70 float16 in tiles of 64 x 32",
             drawn(100, 70, "float16"), 64, 32, compiled=True),
        case("33 x 17 in tiles of 16 x 8: one row and column more than whole tiles",
             drawn(33, 17), 16, 8, shows=frozenset({REMAINDER})),
        case("a transposed view, 300 x 150 in tiles of 64 x 32: many tiles",
             drawn(150, 300).T, 64, 32),
        case("one row seen as 20, 20 x 24 in tiles of 16 x 8", drawn(1, 24).expand(20, -1), 16, 8),
        case("one column seen as 20, 24 x 20 in tiles of 8 x 16",
             drawn(24, 1).expand(-1, 20), 8, 16),
        case("37 x 21 in tiles of 16 x 8: large and tiny numbers, infinite ones, NaN, -0.0",
             draw.tensor(_strange(rng, 37, 21)), 16, 8),
    ]  # fmt: skip


def _strange(rng: Generator, rows: int, cols: int) -> np.ndarray:
    """Return numbers that float16 does not hold, and such as are none, also beside the ends."""
    x = 1e6 * rng.standard_normal((rows, cols))
    x[-1, ::3], x[1::3, -1], x[-1, -1] = np.inf, -np.inf, np.inf
    x[rows // 2, ::4], x[::4, cols // 2] = np.nan, np.inf
    x[2::5, 1::4] = -0.0
    x[3::5, 2::4] *= 1e-14  # float16 has none between 0 and 6e-8
    x[3::5, 3::4], x[1::5, 3::4] = 3e38, 2.0**-149  # float32 has no double of one, no half
    return x


def _copies(
    x: Any, *, block_rows: int, block_cols: int, fill: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return what copy_tiles should: x, and x filled up with zeros to whole tiles."""
    x = as_float64(x)
    rows, cols = x.shape
    width = ((0, -rows % block_rows), (0, -cols % block_cols))
    return x, np.pad(x, width, constant_values=fill)


def _read_inside(
    x: Any, *, block_rows: int, block_cols: int, axes: tuple[int, ...], mode: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return copies whose places past the end of ``axes`` hold what stands inside.

    ``mode``: that of the last row or column ("edge"), or from the first on again ("wrap").
    """
    x, filled = _copies(x, block_rows=block_rows, block_cols=block_cols)
    ends = zip(filled.shape, x.shape, strict=True)
    rows, cols = (whole if i in axes else short for i, (whole, short) in enumerate(ends))
    filled[:rows, :cols] = np.pad(x, ((0, rows - len(x)), (0, cols - x.shape[1])), mode=mode)
    return x, filled


def _times_the_mask(x: Any, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return copies whose places past the ends are 0 times what was read inside in their place."""
    x, read = _read_inside(x, **how)
    inside = _copies(np.ones_like(x), block_rows=how["block_rows"], block_cols=how["block_cols"])[1]
    with np.errstate(invalid="ignore"):  # 0 * inf
        return x, read * inside


PAST_THE_ENDS = "places past the ends are not 0"
_COPIES = ("the copy", "the copy filled up to whole tiles")


def _judge_copies(case: Case, observed: Observed, expected: Any) -> Finding | None:
    if fault := formal_fault(observed.result, expected, case.args[0].dtype):
        return fault
    for got, wanted, name in zip(observed.result, expected, _COPIES, strict=True):
        got, wanted = nan_as_0(got, wanted)
        if finding := array_finding(got, wanted, allowed=0.0, name=name, axes=("row", "column")):
            return finding
        inside = tuple(map(slice, case.args[0].shape))  # whatever a 0 past the ends is
        lost = (np.signbit(got) != np.signbit(wanted))[inside] & (wanted == 0)[inside]
        if lost.any():
            row, column = np.argwhere(lost)[0]
            says = f"{name} has another 0 than x in {lost.sum()} entries: -0.0 keeps its sign"
            return Finding("the values", f"{says}.", f"first at row {row}, column {column}")
    return None


def _once(case: Case) -> Least:
    """Whole tiles may be loaded: addresses past the ends can be moved inside."""
    rows, cols = case.args[0].shape
    block_rows, block_cols = case.kwargs["block_rows"], case.kwargs["block_cols"]
    filled = -(-rows // block_rows) * block_rows * -(-cols // block_cols) * block_cols
    rule = "each tile is loaded once, and stored once in either copy"
    return Least(rule=rule, loads={"x": filled}, stores=rows * cols + filled)


Steps = Callable[[tuple[int, ...], tuple[int, ...]], tuple[int, int]]


def _true_steps(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    return strides[0], strides[1]


_OTHER_STEPS = table(
    ("the column stride is missing",
     "Neighbouring columns are taken to be neighbours in memory. They lie stride_col apart: "
     "multiply cols by it, in both helpers.",
     lambda shape, strides: (strides[0], 1)),
    (NO_ROW_STRIDE,
     "Rows are taken to begin one number apart. They lie stride_row apart: multiply rows by it, in "
     "both helpers.",
     lambda shape, strides: (1, strides[1])),
    (IGNORED,
     "Rows lie stride_row apart and columns stride_col, not n_cols and 1: use the strides, in both "
     "helpers.",
     lambda shape, strides: (shape[1], 1)),
    (STRIDES_EXCHANGED,
     "Rows move by stride_col and columns by stride_row: each by its own, in both helpers.",
     lambda shape, strides: (strides[1], strides[0])),
)  # fmt: skip


def _stepping(load: Steps, store: Steps) -> Callable[..., Any]:
    """Return a model of copy_tiles whose helpers step through memory in their own ways."""

    def model(x: Any, *, block_rows: int, block_cols: int) -> tuple[np.ndarray, np.ndarray]:
        import torch

        rows, cols = x.shape
        x_col, x_row = load(x.shape[::-1], x.stride()[::-1])  # read through its transposed view
        layout = torch.empty_like(x).stride()
        out_row, out_col = store(x.shape, layout)
        memory = as_float64(
            x.as_strided((x.untyped_storage().size() // x.element_size(),), (1,), 0)
        )
        out = np.full(rows * cols, np.nan)
        filled = _copies(x, block_rows=block_rows, block_cols=block_cols)[1]
        down, across = -(-rows // block_rows), -(-cols // block_cols)
        for program in np.ndindex(down, across):  # in order: the last store to a place stays
            i = np.arange(program[0], rows, down)[:, None]
            j = np.arange(program[1], cols, across)[None, :]
            tile = memory[x.storage_offset() + i * x_row + j * x_col]
            filled[i, j] = tile
            out[(i * out_row + j * out_col).ravel()] = tile.ravel()
        return np.array(torch.from_numpy(out).as_strided(x.shape, layout)), filled

    return model


_ENDS = ((0,), (1,), (0, 1))  # axes past whose ends something stands

_MISTAKES = Mistake.table(
    *((name, says,
       _stepping(steps, steps), _stepping(_true_steps, steps), _stepping(steps, _true_steps))
      for name, says, steps in _OTHER_STEPS),
    (PAST_THE_ENDS,
     "A matrix is filled up with 0, which adds nothing to a product: other=0.0. (-inf is for "
     "scores.)",
     partial(_copies, fill=1.0), partial(_copies, fill=-np.inf),
     *(partial(_read_inside, axes=axes, mode=mode)
       for axes in _ENDS for mode in ("edge", "wrap"))),
    (TIMES_INFINITY,
     "What is read past the ends is another place's number, and times 0 it is 0 only if it is "
     "finite: give tl.load the mask, and other=0.0.",
     *(partial(_times_the_mask, axes=axes, mode=mode)
       for axes in _ENDS for mode in ("edge", "wrap"))),
)  # fmt: skip


COPY_TILES = Exercise.of(
    "6.1",
    cases=_copy_cases,
    truth=_copies,
    judge=in_turn(
        stored_whole(_judge_copies, *_COPIES, fill="0.0"),
        was_launched,
        counted(_once),
        moves_all_itself,
    ),
    spared=dict.fromkeys((JUMPS, FAR), "numbers are copied as they are"),
    kind="kernel",
    mistakes=_MISTAKES,
)
