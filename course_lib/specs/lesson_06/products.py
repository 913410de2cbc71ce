"""Exercises 6.2 and 6.3: a tile of scores, and a product in tiles.

Longer than 400 lines because two products share their cases and the mistakes of addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.finding import Finding
from course_lib.judging.kernel_judge import float32_judge, in_turn
from course_lib.judging.least import Least, counted
from course_lib.judging.load_map import Cut
from course_lib.judging.misconceptions import OTHER_STRIDES, SAYS
from course_lib.judging.spec import (
    FAR,
    HARD,
    JUMPS,
    REMAINDER,
    Case,
    Exercise,
    Mistake,
    Observed,
    table,
)
from course_lib.judging.strides import NO_ROW_STRIDE, STRIDES_EXCHANGED
from course_lib.judging.tolerance import as_float64
from course_lib.specs.lesson_06.copy_tiles import PAST_THE_ENDS


def _at(strides: Callable[[int, int], tuple[int, int]]) -> Callable[[Any], Any]:
    """Return a function that reads a matrix at other strides than its own two."""
    return lambda x: x.as_strided(x.shape, strides(*x.stride()))


_MISSING = (
    "The {0}s are taken for neighbours in memory: multiply their numbers by the {0} stride, in "
    "both tiles."
)
_OTHER_STRIDES = table(
    (NO_ROW_STRIDE, _MISSING.format("row"), _at(lambda row, col: (1, col))),
    ("the column stride is missing", _MISSING.format("column"), _at(lambda row, col: (row, 1))),
    (STRIDES_EXCHANGED,
     "Rows move by the column stride and columns by the row stride: that reads another matrix.",
     _at(lambda row, col: (col, row))),
)  # fmt: skip


def _stride_mistakes(product: Callable[..., Any]) -> Iterator[tuple[Any, ...]]:
    """Yield rows of strides that are left out, exchanged or another matrix's."""
    yield (
        OTHER_STRIDES,
        SAYS[OTHER_STRIDES],
        lambda a, b, **_: product(a.as_strided(a.shape, b.stride()), b),
        lambda a, b, **_: product(a, b.as_strided(b.shape, a.stride())),
    )
    for name, says, read in _OTHER_STRIDES:
        yield (
            name,
            says,
            lambda a, b, *, read=read, **_: product(read(a), b),
            lambda a, b, *, read=read, **_: product(a, read(b)),
            lambda a, b, *, read=read, **_: product(read(a), read(b)),
        )


def _scores(q: Any, k: Any) -> np.ndarray:
    return as_float64(q) @ as_float64(k).T


def _score_cases(rng: Generator) -> list[Case]:
    def pair(block_q: int, block_k: int, d: int, *dtypes: str, size: float = 1.0) -> Any:
        q, k = size * rng.standard_normal((block_q, d)), size * rng.standard_normal((block_k, d))
        if dtypes[-1] == "float16":  # so that converting q to float16 changes nothing
            q = q.astype(np.float16)
        return draw.tensor(q, dtypes[0]), draw.tensor(k, dtypes[-1])

    loud = 60 + 4 * rng.standard_normal((2, 32, 64))
    loud[0, ::2] *= -1
    q, k = pair(64, 16, 32, "float32")
    return [
        Case("q and k are 32 x 64, float16, with scores near -230000 and 230000",
             tuple(draw.tensor(x, "float16") for x in loud)),
        Case("q is 32 x 64, k is 16 x 64", pair(32, 16, 64, "float32")),
        Case("q and k are both 32 x 32", pair(32, 32, 32, "float32")),
        Case("q is 16 x 128, k is 64 x 128, float16, numbers near 0.004",
             pair(16, 64, 128, "float16", size=2.0**-8)),
        Case("q is float32, k is float16", pair(32, 16, 64, "float32", "float16")),
        Case("q is float16, k is float32: k keeps its digits",
             pair(16, 32, 64, "float16", "float32")),
        Case("q and k are transposed views", (q.T.contiguous().T, k.T.contiguous().T)),
        Case("q is a transposed view, k is none", (q.T.contiguous().T, k)),
        Case("q is 16 x 64, k is 256 x 64, float16: many keys", pair(16, 256, 64, "float16")),
        Case("q is 256 x 32, k is 16 x 32, float16: many rows", pair(256, 16, 32, "float16")),
        Case("q is 16 x 32, k is 32 x 32, numbers in the hundred thousands",
             pair(16, 32, 32, "float32", size=2e5)),
        Case("q is 64 x 128, k is 32 x 128, float16", pair(64, 32, 128, "float16"), compiled=True),
    ]  # fmt: skip


def _one_tile(case: Case) -> Least:
    q, k = case.args
    return Least(
        rule="q and k are loaded once, each score is stored once, all by one program",
        loads={"q": q.numel(), "k": k.numel()},
        stores=len(q) * len(k),
        flops=2 * q.numel() * len(k),
    )


def _one_dot(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Ask that one ``tl.dot`` makes the tile."""
    if observed.ledger is None or observed.ledger.dots.total() == 1:
        return None
    return Finding(
        "is one tl.dot",
        f"the numbers are right, but {observed.ledger.dots.total()} `tl.dot` make them, and one "
        "makes the whole tile: on a GPU it is what tensor cores do.",
        look="write one tl.dot of the whole q tile and the whole k tile.",
    )


def _half(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float64)


_SCORE_MISTAKES = Mistake.table(
    ("k is not transposed",
     "This is q @ k: where all sizes are equal the shapes fit and the numbers are wrong.",
     lambda q, k: as_float64(q) @ as_float64(k)),
    ("the wrong tile is transposed", "This is q.T @ k: turn k round, not q.",
     lambda q, k: as_float64(q).T @ as_float64(k)),
    ("the scores are transposed",
     "This is k @ q.T: each row of the result belongs to one row of q.",
     lambda q, k: _scores(q, k).T),
    ("the scores are rounded to float16",
     "float16 ends at 65504: larger scores become infinite. Leave the result of tl.dot in "
     "float32.",
     lambda q, k: _half(_scores(q, k))),
    ("a tile is multiplied with itself",
     "Both sides of the product are q, or both are k: each score is one row of q by one of k.",
     lambda q, k: _scores(q, q),
     lambda q, k: _scores(k, k),
     lambda q, k: _scores(q, q.as_strided(k.shape, k.stride())),
     lambda q, k: _scores(k.as_strided(q.shape, q.stride()), k)),
    ("k is reshaped, not transposed",
     "The tile has the right shape, but its numbers kept their order: use tl.trans.",
     lambda q, k: as_float64(q) @ as_float64(k).reshape(k.shape[::-1])),
    *_stride_mistakes(_scores),
    ("the scores are divided by sqrt(d)", "Here the plain product is asked for: no scale.",
     lambda q, k: _scores(q, k) / np.sqrt(q.shape[-1])),
)  # fmt: skip


TILE_SCORES = Exercise.of(
    "6.2",
    cases=_score_cases,
    truth=_scores,
    judge=in_turn(
        float32_judge("the tile of scores", 1e-5, ("row", "column")), counted(_one_tile), _one_dot
    ),
    spared=dict.fromkeys(HARD, "one whole tile of scores, of which no exp is taken"),
    kind="kernel",
    cuts=lambda case: {name: Cut(tuple(x.shape)) for name, x in zip("qk", case.args, strict=True)},
    mistakes=_SCORE_MISTAKES,
)


def _matmul_cases(rng: Generator) -> list[Case]:
    def pair(m: int, n: int, k: int, dtype: str = "float32") -> Any:
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n)) + 0.3
        return draw.tensor(a, dtype), draw.tensor(b, dtype)

    def tiles(m: int, n: int, k: int) -> dict[str, int]:
        return {"block_m": m, "block_n": n, "block_k": k}

    a, b = pair(50, 40, 90)
    square = pair(24, 24, 24)
    return [
        Case("32 x 96 times 96 x 64, whole tiles: no two sides are alike",
             pair(32, 64, 96), tiles(16, 64, 32)),
        Case("16 x 32 times 32 x 16, one step of 32", pair(16, 16, 32), tiles(16, 16, 32)),
        Case("37 x 50 times 50 x 29: everything is short", pair(37, 29, 50), tiles(16, 32, 16)),
        Case("transposed views, 50 x 90 times 90 x 40",
             (a.T.contiguous().T, b.T.contiguous().T), tiles(32, 16, 64)),
        Case("20 x 10 times 10 x 20: less than one tile", pair(20, 20, 10), tiles(32, 32, 32)),
        Case(
            "100 x 200 times 200 x 72, float16",
            pair(100, 72, 200, "float16"),
            tiles(64, 32, 64),
            compiled=True,
        ),
        Case("33 x 49 times 49 x 65: one row, column and step more than whole tiles",
             pair(33, 65, 49), tiles(16, 32, 16), shows=frozenset({REMAINDER})),
        Case("1100 x 20 times 20 x 40: many tiles", pair(1100, 40, 20), tiles(16, 16, 16)),
        Case("96 x 96 times 96 x 160 in tiles of 64: multiples of 32, and no whole tiles",
             pair(96, 160, 96), tiles(64, 64, 64)),
        Case("20 x 24 times 24 x 20, numbers near 1e-5 and 1e-3 only",
             tuple(x * s for x, s in zip(pair(20, 20, 24), (2.0**-17, 2.0**-10), strict=True)),
             tiles(16, 32, 16)),
        Case("a is a transposed view, b is none, 24 x 24 both",
             (square[0].T.contiguous().T, square[1]), tiles(16, 32, 16)),
        *(Case(f"24 x {64 * steps - 20} times {64 * steps - 20} x 20: {steps} steps",
               pair(24, 20, 64 * steps - 20), tiles(16, 32, 64)) for steps in (6, 17)),
        Case("20 x 40 times 40 x 30, infinite at both ends of k",
             _infinite_at_the_ends(*pair(20, 30, 40)), tiles(16, 16, 32)),
        Case("32 x 64 times 64 x 32, a tile of zeros on either side: it is read as all others are",
             _zeros_on_either_side(*pair(32, 32, 64)), tiles(16, 16, 16)),
    ]  # fmt: skip


def _infinite_at_the_ends(a: Any, b: Any) -> Any:
    """Return a product's sides with infinite rows and columns, each by one number of an end of k.

    Whoever reads one once more, for places past the end (there lies the last number, or the first
    again), makes NaN of it, unless it is masked on both sides.
    """
    a[3, -1], b[-1, 5] = np.inf, -np.inf
    a[6, 0], b[0, 8] = np.inf, -np.inf
    return a, b


def _zeros_on_either_side(a: Any, b: Any) -> Any:
    """Return a product's sides, each with a tile of zeros: a tile of 16, and not at one step."""
    a[:16, 16:32], b[32:48, 16:] = 0, 0
    return a, b


def _tile_by_tile(case: Case) -> Least:
    """Whole tiles may be loaded and stored: inputs can be padded, addresses wrap round."""
    (m, k), n = case.args[0].shape, case.args[1].shape[1]
    sizes = [case.kwargs[name] for name in ("block_m", "block_n", "block_k")]
    (b_m, b_n, b_k), (t_m, t_n, t_k) = (
        sizes,
        (-(-x // b) for x, b in zip((m, n, k), sizes, strict=True)),
    )
    said = f"block_m={b_m}, block_n={b_n}, block_k={b_k}"
    return Least(
        rule="a tile of a and one of b are loaded once in each step, the result is stored once",
        loads={"a": t_m * t_n * t_k * b_m * b_k, "b": t_m * t_n * t_k * b_k * b_n},
        stores=t_m * t_n * b_m * b_n,
        tiles={"a": (said, b_m * b_k), "b": (said, b_k * b_n)},
        flops=2 * t_m * t_n * t_k * b_m * b_n * b_k,
        dots=2 * m * n * k,
    )


def _cuts(case: Case) -> dict[str, Cut]:
    """Return the tiles of a and b: each is loaded once for each tile of the result beside it."""
    b_m, b_n, b_k = (case.kwargs[name] for name in ("block_m", "block_n", "block_k"))
    m, n = len(case.args[0]), case.args[1].shape[1]
    return {"a": Cut((b_m, b_k), -(-n // b_n)), "b": Cut((b_k, b_n), -(-m // b_m))}


def _product(a: Any, b: Any, **_: int) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # infinite numbers among those it computes with
        return as_float64(a) @ as_float64(b)


Steps = Callable[[int, int, int, int], Any]  # k, block_k, m and n -> which numbers along k


def _reading(in_a: Steps, in_b: Steps | None = None) -> Callable[..., Any]:
    """Return a product of other numbers along k, ``in_a`` of a's and ``in_b`` (the same) of b's."""

    def product(a: Any, b: Any, *, block_k: int, **_: int) -> np.ndarray:
        sizes = len(b), block_k, len(a), b.shape[1]
        return _product(a[:, in_a(*sizes)], b[(in_b or in_a)(*sizes)])

    return product


def _again_and_again(k: int, block_k: int, *_: int) -> np.ndarray:
    """Return the first step's numbers in each step, of a short one as many as it has."""
    return np.arange(k) % block_k


def _all_of_k(k: int, *_: int) -> np.ndarray:
    return np.arange(k)


def _by_one(count: Callable[[int, int], int]) -> Steps:
    """Return the numbers of ``count(k, block_k)`` steps that begin at 0, 1, 2, ..."""
    return lambda k, block_k, *_: np.concatenate(
        [np.arange(s, min(s + block_k, k)) for s in range(min(count(k, block_k), k))]
    )


def _largest_step(a: Any, b: Any, *, block_k: int, **_: int) -> np.ndarray:
    starts = range(0, len(b), block_k)
    steps = [_product(a[:, s : s + block_k], b[s : s + block_k]) for s in starts]
    return np.asarray(np.max(steps, axis=0))


def _moved_wrongly(a: Any, b: Any, *, block_k: int, of_a: bool, of_b: bool, **_: int) -> Any:
    """Return what steps add up that move a by its row stride, b by its column stride."""
    (a_row, a_col), (b_row, b_col) = a.stride(), b.stride()
    total = np.zeros((len(a), b.shape[1]))
    for start in range(0, len(b), block_k):
        width = min(block_k, len(b) - start)
        in_a = a.storage_offset() + start * (a_row if of_a else a_col)
        in_b = b.storage_offset() + start * (b_col if of_b else b_row)
        a_tile = a.as_strided((len(a), width), (a_row, a_col), in_a)
        b_tile = b.as_strided((width, b.shape[1]), (b_row, b_col), in_b)
        total = total + _product(a_tile, b_tile)
    return total


def _doubled(a: Any, b: Any, *, block_k: int, **_: int) -> Any:
    """Return a product in each step of which what was added so far is doubled."""
    total = np.zeros((len(a), b.shape[1]))
    for start in range(0, len(b), block_k):
        step = _product(a[:, start : start + block_k], b[start : start + block_k])
        total = 2 * total + step
    return total


def _in_half_each_step(a: Any, b: Any, *, block_k: int, before: bool = False, **_: int) -> Any:
    """Return a product whose accumulator is rounded to the type of the inputs, if that is half.

    It adds up in float32, as a kernel does: what lies half-way is rounded to the same side.
    ``before``: what a step adds is rounded as well.
    """
    total = a.float().new_zeros(len(a), b.shape[1])
    for start in range(0, len(b), block_k):
        step = a[:, start : start + block_k].float() @ b[start : start + block_k].float()
        step = step.to(a.dtype).float() if before else step
        total = (total + step).to(a.dtype).float()
    return total


def _first_tiles(a: Any, b: Any, *, axis: int, **sizes: int) -> np.ndarray:
    """Return the product with nothing stored but the first rows (``axis`` 0), or columns."""
    product = _product(a, b)
    product.swapaxes(0, axis)[sizes[("block_m", "block_n")[axis]] :] = np.nan
    return product


_PRODUCT_MISTAKES = Mistake.table(
    ("only the last step counts",
     "The accumulator is overwritten in each step: acc += tl.dot(...), not acc = ...",
     _reading(lambda k, block_k, *_: np.arange((k - 1) // block_k * block_k, k))),
    ("every step reads the first tiles",
     "The addresses do not move along k: steps = start + tl.arange(0, BLOCK_K).",
     _reading(lambda k, block_k, *_: np.arange(-(-k // block_k) * min(k, block_k)) % block_k)),
    ("only the first step counts", "The loop must reach the end of k: range(0, k, BLOCK_K).",
     _reading(lambda k, block_k, *_: np.arange(min(k, block_k)))),
    ("the steps are averaged",
     "A product is the sum of what the steps make: nothing is divided by their number.",
     lambda a, b, *, block_k, **_: _product(a, b) / -(-len(b) // block_k)),
    ("the largest of the steps, not their sum",
     "Each entry is the largest of what the steps make: add them up, acc += tl.dot(...).",
     _largest_step),
    ("the first step is left out", "The loop begins at 0: range(0, k, BLOCK_K).",
     _reading(lambda k, block_k, *_: np.arange(block_k, k))),
    ("the first step counts twice",
     "What is done before the loop is done in its first step as well: begin at BLOCK_K, or with "
     "zeros.",
     _reading(lambda k, block_k, *_: np.r_[: min(k, block_k), :k])),
    ("every step reads the first tiles",
     "The mask moves along k, and the addresses do not: they begin at start, too.",
     _reading(_again_and_again)),
    ("a pointer moves by the wrong stride",
     "From step to step a moves along its columns, BLOCK_K * a_col, and b along its rows, "
     "BLOCK_K * b_row.",
     partial(_moved_wrongly, of_a=True, of_b=False),
     partial(_moved_wrongly, of_a=False, of_b=True),
     partial(_moved_wrongly, of_a=True, of_b=True)),
    ("the short last step is left out",
     "range(0, k, BLOCK_K) also reaches the last, short step.",
     _reading(lambda k, block_k, *_: np.arange(k // block_k * block_k)),
     _reading(lambda k, block_k, *_: np.arange(k - (k % block_k == 1)))),
    ("the loop does not end at k",
     "The steps run along k, which both matrices have: range(0, k, BLOCK_K). m and n are the rows "
     "and columns of the result.",
     _reading(lambda k, block_k, m, n: np.arange(min(k, -(-n // block_k) * block_k))),
     _reading(lambda k, block_k, m, n: np.arange(min(k, -(-m // block_k) * block_k)))),
    ("the loop moves by 1, not by block_k",
     "Each step takes block_k numbers, so the next begins block_k further: range(0, k, BLOCK_K).",
     _reading(_by_one(lambda k, block_k: k)),
     _reading(_by_one(lambda k, block_k: -(-k // block_k))),
     _reading(_by_one(lambda k, block_k: block_k))),
    (PAST_THE_ENDS, "Entries past the end of k are to add nothing: other=0.0, in both loads.",
     lambda a, b, *, block_k, **_: _product(a, b) + -len(b) % block_k),
    *((f"every step reads the first tile of {still}",
       "Its addresses do not move along k: both need steps = start + tl.arange(0, BLOCK_K).",
       _reading(*reads))
      for still, reads in (("a", (_again_and_again, _all_of_k)),
                           ("b", (_all_of_k, _again_and_again)))),
    *_stride_mistakes(_product),
    ("the accumulator is kept in half precision",
     "It is rounded to the inputs' half precision in every step: keep it in float32, as long as "
     "the loop runs.",
     _in_half_each_step, partial(_in_half_each_step, before=True)),
    ("the accumulator is added to itself",
     "tl.dot(a, b, acc) has acc in it already: acc = tl.dot(a, b, acc), or acc += tl.dot(a, b).",
     _doubled),
    ("every program works on the first columns",
     "The columns do not depend on tl.program_id(1), so that nothing is stored in the others.",
     partial(_first_tiles, axis=1)),
    ("every program works on the first rows",
     "The rows do not depend on tl.program_id(0), so that nothing is stored in the others.",
     partial(_first_tiles, axis=0)),
)  # fmt: skip


MATMUL = Exercise.of(
    "6.3",
    cases=_matmul_cases,
    truth=_product,
    judge=in_turn(float32_judge("the product", 1e-5, ("row", "column")), counted(_tile_by_tile)),
    spared=dict.fromkeys((JUMPS, FAR), "there are no scores"),
    kind="kernel",
    cuts=_cuts,
    mistakes=_PRODUCT_MISTAKES,
)
