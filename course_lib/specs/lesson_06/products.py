"""Exercises 6.2 and 6.3: a tile of scores, and a product in tiles.

Longer than 400 lines because both share how matrices are misread, and a loop has many wrong ways.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.finding import Finding
from course_lib.judging.kernel_judge import float32_judge, in_turn
from course_lib.judging.least import Least, counted
from course_lib.judging.load_map import Cut
from course_lib.judging.misconceptions import OTHER_STRIDES, SAYS, STRIDES_EXCHANGED
from course_lib.judging.spec import FAR, HARD, JUMPS, REMAINDER, Case, Exercise, Mistake, Observed
from course_lib.judging.strides import NO_ROW_STRIDE
from course_lib.judging.tolerance import as_float64
from course_lib.specs.lesson_06.copy_tiles import PAST_THE_ENDS


def _at(strides: Callable[[int, int], tuple[int, int]]) -> Callable[[Any], Any]:
    """Return a function that reads a matrix at other strides than its own two."""
    return lambda x: x.as_strided(x.shape, strides(*x.stride()))


_MISSING = (
    "The {0}s are taken for neighbours in memory: multiply their numbers by the {0} stride, in "
    "both tiles."
)
_OTHER_STRIDES: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    (NO_ROW_STRIDE, _MISSING.format("row"), _at(lambda row, col: (1, col))),
    ("the column stride is missing", _MISSING.format("column"), _at(lambda row, col: (row, 1))),
    (
        STRIDES_EXCHANGED,
        "Rows move by the column stride and columns by the row stride: that reads another matrix.",
        _at(lambda row, col: (col, row)),
    ),
)


def _stride_mistakes(product: Callable[..., Any]) -> tuple[Mistake, ...]:
    """Return what comes of strides that are left out, exchanged or another matrix's."""
    of_the_other = Mistake.ways(
        OTHER_STRIDES,
        SAYS[OTHER_STRIDES],
        lambda a, b, **_: product(a.as_strided(a.shape, b.stride()), b),
        lambda a, b, **_: product(a, b.as_strided(b.shape, a.stride())),
    )
    return of_the_other + tuple(
        Mistake(
            name,
            says,
            lambda a, b, *, read=read, which=which, **_: product(
                read(a) if which != "b" else a, read(b) if which != "a" else b
            ),
        )
        for name, says, read in _OTHER_STRIDES
        for which in ("a", "b", "both")
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
    mistakes=(
        Mistake(
            "k is not transposed",
            "This is q @ k: where all sizes are equal the shapes fit and the numbers are wrong.",
            lambda q, k: as_float64(q) @ as_float64(k),
        ),
        Mistake(
            "the wrong tile is transposed",
            "This is q.T @ k: turn k round, not q.",
            lambda q, k: as_float64(q).T @ as_float64(k),
        ),
        Mistake(
            "the scores are transposed",
            "This is k @ q.T: each row of the result belongs to one row of q.",
            lambda q, k: _scores(q, k).T,
        ),
        Mistake(
            "the scores are rounded to float16",
            "float16 ends at 65504: larger scores become infinite. Leave the result of tl.dot "
            "in float32.",
            lambda q, k: _half(_scores(q, k)),
        ),
        *Mistake.ways(
            "a tile is multiplied with itself",
            "Both sides of the product are q, or both are k: each score is one row of q by one of "
            "k.",
            lambda q, k: _scores(q, q),
            lambda q, k: _scores(k, k),
            lambda q, k: _scores(q, q.as_strided(k.shape, k.stride())),
            lambda q, k: _scores(k.as_strided(q.shape, q.stride()), k),
        ),
        Mistake(
            "k is reshaped, not transposed",
            "The tile has the right shape, but its numbers kept their order: use tl.trans.",
            lambda q, k: as_float64(q) @ as_float64(k).reshape(k.shape[::-1]),
        ),
        *_stride_mistakes(_scores),
        Mistake(
            "the scores are divided by sqrt(d)",
            "Here the plain product is asked for: no scale.",
            lambda q, k: _scores(q, k) / np.sqrt(q.shape[-1]),
        ),
    ),
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
    ]  # fmt: skip


def _infinite_at_the_ends(a: Any, b: Any) -> Any:
    """Return a product's sides with infinite rows and columns, each by one number of an end of k.

    Whoever reads one once more, for places past the end (there lies the last number, or the first
    again), makes NaN of it, unless it is masked on both sides.
    """
    a[3, -1], b[-1, 5] = np.inf, -np.inf
    a[6, 0], b[0, 8] = np.inf, -np.inf
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


def _products(a: Any, b: Any, block_k: int) -> list[np.ndarray]:
    """Return the product of each step along k, (m, n) each."""
    a, b = as_float64(a), as_float64(b)
    return [a[:, s : s + block_k] @ b[s : s + block_k] for s in range(0, len(b), block_k)]


def _steps(name: str, says: str, pick: Callable[[list[np.ndarray], int], Any]) -> Mistake:
    """Return a mistake that makes ``pick(products, length of a short last step)`` of the steps."""

    def model(a: Any, b: Any, *, block_k: int, **_: int) -> Any:
        return pick(_products(a, b, block_k), len(b) % block_k)

    return Mistake(name, says, model)


def _but_the_last(products: list[np.ndarray], short: int, longest: int) -> Any:
    """Return what is left if the last step is short, and at most ``longest``, and left out."""
    return sum(products[:-1] if 0 < short <= longest else products)


def _first_tiles_masked(a: Any, b: Any, *, block_k: int, **_: int) -> Any:
    a, b = as_float64(a), as_float64(b)
    widths = (min(block_k, len(b) - start) for start in range(0, len(b), block_k))
    return sum(a[:, :width] @ b[:width] for width in widths)


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


def _up_to(end: Callable[[Any, Any], int], a: Any, b: Any, *, block_k: int, **_: int) -> Any:
    """Return what steps from 0 to ``end(a, b)`` add up, none of which goes past the end of k."""
    return sum(_products(a, b, block_k)[: -(-end(a, b) // block_k)])


def _by_one(count: Callable[[int, int], int], a: Any, b: Any, *, block_k: int, **_: int) -> Any:
    """Return what ``count(k, block_k)`` steps add up that begin at 0, 1, 2, ..."""
    a, b = as_float64(a), as_float64(b)
    starts = range(min(count(len(b), block_k), len(b)))
    return sum(a[:, s : s + block_k] @ b[s : s + block_k] for s in starts)


def _one_stands_still(a: Any, b: Any, block_k: int, still: str) -> np.ndarray:
    a, b = as_float64(a), as_float64(b)
    steps = np.arange(len(b))
    in_a, in_b = (steps % block_k if still == name else steps for name in "ab")
    return a[:, in_a] @ b[in_b]


def _first_tiles(a: Any, b: Any, *, axis: int, **sizes: int) -> np.ndarray:
    """Return the product with nothing stored but the first rows (``axis`` 0), or columns."""
    product = _product(a, b)
    product.swapaxes(0, axis)[sizes[("block_m", "block_n")[axis]] :] = np.nan
    return product


MATMUL = Exercise.of(
    "6.3",
    cases=_matmul_cases,
    truth=_product,
    judge=in_turn(float32_judge("the product", 1e-5, ("row", "column")), counted(_tile_by_tile)),
    spared=dict.fromkeys((JUMPS, FAR), "there are no scores"),
    kind="kernel",
    cuts=_cuts,
    mistakes=(
        _steps(
            "only the last step counts",
            "The accumulator is overwritten in each step: acc += tl.dot(...), not acc = ...",
            lambda products, _: products[-1],
        ),
        _steps(
            "every step reads the first tiles",
            "The addresses do not move along k: steps = start + tl.arange(0, BLOCK_K).",
            lambda products, _: len(products) * products[0],
        ),
        _steps(
            "only the first step counts",
            "The loop must reach the end of k: range(0, k, BLOCK_K).",
            lambda products, _: products[0],
        ),
        _steps(
            "the steps are averaged",
            "A product is the sum of what the steps make: nothing is divided by their number.",
            lambda products, _: sum(products) / len(products),
        ),
        _steps(
            "the largest of the steps, not their sum",
            "Each entry is the largest of what the steps make: add them up, acc += tl.dot(...).",
            lambda products, _: np.max(products, axis=0),
        ),
        _steps(
            "the first step is left out",
            "The loop begins at 0: range(0, k, BLOCK_K).",
            lambda products, _: sum(products[1:], np.zeros_like(products[0])),
        ),
        _steps(
            "the first step counts twice",
            "What is done before the loop is done in its first step as well: begin at BLOCK_K, or "
            "with zeros.",
            lambda products, _: products[0] + sum(products),
        ),
        Mistake(
            "every step reads the first tiles",
            "The mask moves along k, and the addresses do not: they begin at start, too.",
            _first_tiles_masked,
        ),
        *Mistake.ways(
            "a pointer moves by the wrong stride",
            "From step to step a moves along its columns, BLOCK_K * a_col, and b along its rows, "
            "BLOCK_K * b_row.",
            partial(_moved_wrongly, of_a=True, of_b=False),
            partial(_moved_wrongly, of_a=False, of_b=True),
            partial(_moved_wrongly, of_a=True, of_b=True),
        ),
        *(
            _steps(
                "the short last step is left out",
                "range(0, k, BLOCK_K) also reaches the last, short step.",
                partial(_but_the_last, longest=longest),
            )
            for longest in (1 << 30, 1)
        ),
        *Mistake.ways(
            "the loop does not end at k",
            "The steps run along k, which both matrices have: range(0, k, BLOCK_K). m and n are "
            "the rows and columns of the result.",
            partial(_up_to, lambda a, b: b.shape[1]),
            partial(_up_to, lambda a, b: len(a)),
        ),
        *Mistake.ways(
            "the loop moves by 1, not by block_k",
            "Each step takes block_k numbers, so the next begins block_k further: "
            "range(0, k, BLOCK_K).",
            partial(_by_one, lambda k, block_k: k),
            partial(_by_one, lambda k, block_k: -(-k // block_k)),
            partial(_by_one, lambda k, block_k: block_k),
        ),
        Mistake(
            PAST_THE_ENDS,
            "Entries past the end of k are to add nothing: other=0.0, in both loads.",
            lambda a, b, *, block_k, **_: _product(a, b) + -len(b) % block_k,
        ),
        *(
            Mistake(
                f"every step reads the first tile of {still}",
                "Its addresses do not move along k: both need steps = start + "
                "tl.arange(0, BLOCK_K).",
                lambda a, b, *, block_k, still=still, **_: _one_stands_still(a, b, block_k, still),
            )
            for still in "ab"
        ),
        *_stride_mistakes(_product),
        *Mistake.ways(
            "every program works on the first columns",
            "The columns do not depend on tl.program_id(1), so that nothing is stored in the "
            "others.",
            partial(_first_tiles, axis=1),
        ),
        *Mistake.ways(
            "every program works on the first rows",
            "The rows do not depend on tl.program_id(0), so that nothing is stored in the others.",
            partial(_first_tiles, axis=0),
        ),
    ),
)
