"""Exercises of lesson 06, Triton in two dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import faults
from course_lib.judging.judges import Judge, array_finding
from course_lib.judging.kernel_judge import in_turn, stored_whole, was_launched
from course_lib.judging.questions import question, wrong_answer
from course_lib.judging.spec import Case, Exercise, Finding, Mistake, Observed
from course_lib.judging.tolerance import as_float64


def _tensor(x: Any, dtype: str = "float32") -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)).to(getattr(torch, dtype))


def _formal(got: Any, expected: Any, dtypes: Any) -> Finding | None:
    """Return a formal fault of a tensor (or of a tuple of tensors), on whatever device it is."""
    import torch

    several = isinstance(expected, tuple)
    likes = [torch.empty(e.shape, dtype=dtypes) for e in (expected if several else (expected,))]
    parts = got if several and isinstance(got, tuple | list) else [got]
    if len(parts) == len(likes):
        likes = [
            like.to(part.device) if faults.is_tensor(part) else like
            for like, part in zip(likes, parts, strict=True)
        ]
    return faults.find_fault(got, tuple(likes) if several else likes[0])


def _float32(name: str, relative: float) -> Judge:
    """Judge one float32 tensor: formal faults, then values; was a kernel launched?"""

    def judge(case: Case, observed: Observed, expected: np.ndarray) -> Finding | None:
        import torch

        return _formal(observed.result, expected, torch.float32) or array_finding(
            observed.result,
            expected,
            relative=relative,
            name=name,
            axes=("row", "column")[: expected.ndim],
        )

    return in_turn(stored_whole(judge, name), was_launched)


# --- 6.1 ----------------------------------------------------------------------------------------


def _copy_cases(rng: Generator) -> list[Case]:
    def drawn(rows: int, cols: int, dtype: str = "float32") -> Any:
        return _tensor(rng.standard_normal((rows, cols)), dtype)

    def tiles(rows: int, cols: int) -> dict[str, int]:
        return {"block_rows": rows, "block_cols": cols}

    return [
        Case("64 x 32 in tiles of 16 x 32: whole tiles", (drawn(64, 32),), tiles(16, 32)),
        Case("37 x 21 in tiles of 16 x 8: short on both sides", (drawn(37, 21),), tiles(16, 8)),
        Case("a transposed view, 40 x 24 in tiles of 16 x 32", (drawn(24, 40).T,), tiles(16, 32)),
        Case(
            "a part of a wider table, 30 x 20 in tiles of 8 x 16",
            (drawn(64, 50)[3:33, 9:29],),
            tiles(8, 16),
        ),
        Case(
            "every third column, 20 x 12 in tiles of 16 x 8", (drawn(20, 36)[:, ::3],), tiles(16, 8)
        ),
        Case("one entry in a tile of 16 x 16", (drawn(1, 1),), tiles(16, 16)),
        Case(
            "100 x 70 float16 in tiles of 64 x 32",
            (drawn(100, 70, "float16"),),
            tiles(64, 32),
            compiled=True,
        ),
    ]


def _copies(
    x: Any, *, block_rows: int, block_cols: int, fill: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return what copy_tiles should: x, and x filled up with zeros to whole tiles."""
    x = as_float64(x)
    rows, cols = x.shape
    width = ((0, -rows % block_rows), (0, -cols % block_cols))
    return x, np.pad(x, width, constant_values=fill)


_COPIES = ("the copy", "the copy filled up to whole tiles")


def _judge_copies(case: Case, observed: Observed, expected: Any) -> Finding | None:
    if fault := _formal(observed.result, expected, case.args[0].dtype):
        return fault
    for got, wanted, name in zip(observed.result, expected, _COPIES, strict=True):
        if finding := array_finding(got, wanted, relative=0.0, name=name, axes=("row", "column")):
            return finding
    return None


Steps = Callable[[tuple[int, ...], tuple[int, ...]], tuple[int, int]]


def _true_steps(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    return strides[0], strides[1]


def _columns_one_apart(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    return strides[0], 1


def _row_after_row(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    return shape[1], 1


def _stepping(load: Steps, store: Steps) -> Callable[..., Any]:
    """Return a model of copy_tiles whose helpers step through memory in their own ways."""

    def model(x: Any, *, block_rows: int, block_cols: int) -> tuple[np.ndarray, np.ndarray]:
        rows, cols = x.shape
        x_row, x_col = load(x.shape, x.stride())
        out_row, out_col = store(x.shape, (1, rows))  # out is column-major
        memory = as_float64(
            x.as_strided((x.untyped_storage().size() // x.element_size(),), (1,), 0)
        )
        out = np.full(rows * cols, np.nan)
        filled = _copies(x, block_rows=block_rows, block_cols=block_cols)[1]
        for top in range(0, rows, block_rows):
            for left in range(0, cols, block_cols):
                i = np.arange(top, min(top + block_rows, rows))[:, None]
                j = np.arange(left, min(left + block_cols, cols))[None, :]
                tile = memory[x.storage_offset() + i * x_row + j * x_col]
                filled[i, j] = tile
                out[(i * out_row + j * out_col).ravel()] = tile.ravel()
        return out.reshape(cols, rows).T, filled

    return model


COPY_TILES = Exercise.of(
    "6.1",
    cases=_copy_cases,
    truth=_copies,
    judge=in_turn(stored_whole(_judge_copies, *_COPIES), was_launched),
    kind="kernel",
    mistakes=(
        *(
            Mistake(name, says, _stepping(load, store))
            for name, says, steps in (
                (
                    "the column stride is missing",
                    "Neighbouring columns are taken to be neighbours in memory. They lie "
                    "stride_col apart: multiply cols by it, in both helpers.",
                    _columns_one_apart,
                ),
                (
                    "the matrix is taken for contiguous",
                    "Rows lie stride_row apart and columns stride_col, not n_cols and 1: use the "
                    "strides, in both helpers.",
                    _row_after_row,
                ),
            )
            for load, store in ((steps, steps), (_true_steps, steps), (steps, _true_steps))
        ),
        *(
            Mistake(
                "places past the ends are not 0",
                "A matrix is filled up with 0, which adds nothing to a product: other=0.0. "
                "(-inf is for scores.)",
                lambda x, *, block_rows, block_cols, fill=fill: _copies(
                    x, block_rows=block_rows, block_cols=block_cols, fill=fill
                ),
            )
            for fill in (1.0, -np.inf)
        ),
    ),
)


# --- 6.2 ----------------------------------------------------------------------------------------


IGNORED = "the strides are ignored"
_USE_STRIDES = "The tensors are taken to lie in memory row after row: use the strides."


def _as_contiguous(x: Any) -> Any:
    """Return the matrix that is read if the strides of ``x`` are ignored."""
    return x.as_strided(x.shape, (x.shape[1], 1))


def _scores(q: Any, k: Any) -> np.ndarray:
    return as_float64(q) @ as_float64(k).T


def _score_cases(rng: Generator) -> list[Case]:
    def pair(block_q: int, block_k: int, d: int, *dtypes: str, size: float = 1.0) -> Any:
        q, k = size * rng.standard_normal((block_q, d)), size * rng.standard_normal((block_k, d))
        if "float16" in dtypes:  # so that converting q to float16 changes nothing
            q, k = q.astype(np.float16), k.astype(np.float16)
        return _tensor(q, dtypes[0]), _tensor(k, dtypes[-1])

    loud = 60 + 4 * rng.standard_normal((2, 32, 64))
    q, k = pair(64, 16, 32, "float32")
    return [
        Case(
            "q and k are 32 x 64, float16, with scores near 230000",
            tuple(_tensor(x, "float16") for x in loud),
        ),
        Case("q is 32 x 64, k is 16 x 64", pair(32, 16, 64, "float32")),
        Case("q and k are both 32 x 32", pair(32, 32, 32, "float32")),
        Case("q is 16 x 128, k is 64 x 128, float16", pair(16, 64, 128, "float16")),
        Case("q is float32, k is float16", pair(32, 16, 64, "float32", "float16")),
        Case("q and k are transposed views", (q.T.contiguous().T, k.T.contiguous().T)),
        Case(
            "q is 64 x 128, k is 32 x 128, float16",
            pair(64, 32, 128, "float16"),
            compiled=True,
        ),
    ]


def _half(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float64)


TILE_SCORES = Exercise.of(
    "6.2",
    cases=_score_cases,
    truth=_scores,
    judge=_float32("the tile of scores", 1e-5),
    kind="kernel",
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
        Mistake(
            "k is reshaped, not transposed",
            "The tile has the right shape, but its numbers kept their order: use tl.trans.",
            lambda q, k: as_float64(q) @ as_float64(k).reshape(k.shape[::-1]),
        ),
        Mistake(
            IGNORED,
            _USE_STRIDES,
            lambda q, k: _scores(_as_contiguous(q), _as_contiguous(k)),
        ),
        Mistake(
            "the scores are divided by sqrt(d)",
            "Here the plain product is asked for: no scale.",
            lambda q, k: _scores(q, k) / np.sqrt(q.shape[-1]),
        ),
    ),
)


# --- 6.3 ----------------------------------------------------------------------------------------


def _matmul_cases(rng: Generator) -> list[Case]:
    def pair(m: int, n: int, k: int, dtype: str = "float32") -> Any:
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n)) + 0.3
        return _tensor(a, dtype), _tensor(b, dtype)

    def tiles(m: int, n: int, k: int) -> dict[str, int]:
        return {"block_m": m, "block_n": n, "block_k": k}

    a, b = pair(50, 40, 90)
    return [
        Case("32 x 64 times 64 x 48, whole tiles of 16", pair(32, 48, 64), tiles(16, 16, 16)),
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
    ]  # fmt: skip


def _products(a: Any, b: Any, block_k: int) -> list[np.ndarray]:
    """Return the product of each step along k, (m, n) each."""
    a, b = as_float64(a), as_float64(b)
    return [a[:, s : s + block_k] @ b[s : s + block_k] for s in range(0, len(b), block_k)]


def _steps(name: str, says: str, pick: Callable[[list[np.ndarray], bool], Any]) -> Mistake:
    """Return a mistake that makes ``pick(products, last step is short)`` of the steps."""

    def model(a: Any, b: Any, *, block_k: int, **_: int) -> Any:
        return pick(_products(a, b, block_k), bool(len(b) % block_k))

    return Mistake(name, says, model)


def _one_stands_still(a: Any, b: Any, block_k: int, still: str) -> np.ndarray:
    a, b = as_float64(a), as_float64(b)
    steps = np.arange(len(b))
    in_a, in_b = (steps % block_k if still == name else steps for name in "ab")
    return a[:, in_a] @ b[in_b]


MATMUL = Exercise.of(
    "6.3",
    cases=_matmul_cases,
    truth=lambda a, b, **_: as_float64(a) @ as_float64(b),
    judge=_float32("the product", 1e-5),
    kind="kernel",
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
            "the short last step is left out",
            "range(0, k, BLOCK_K) also reaches the last, short step.",
            lambda products, short: sum(products[:-1] if short else products),
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
        Mistake(
            IGNORED,
            _USE_STRIDES,
            lambda a, b, **_: as_float64(_as_contiguous(a)) @ as_float64(_as_contiguous(b)),
        ),
    ),
)


# --- 6.4 ----------------------------------------------------------------------------------------

FINE, REFUSED, RACES = "fine", "does not compile", "races"
ON_A_GPU = {
    "biggest": REFUSED,
    "first_part": REFUSED,
    "small_dot": REFUSED,
    "total": RACES,
    "centred": FINE,
}

WHICH_FAIL = question(
    "6.4a",
    ON_A_GPU,
    wrong=(
        wrong_answer(
            dict.fromkeys(ON_A_GPU, FINE),
            "green on the CPU works on a GPU",
            "The interpreter accepts any Python and runs the programs in order. The compiler "
            "wants fixed types, and a GPU has no order.",
        ),
        wrong_answer(
            ON_A_GPU | {"total": FINE},
            "programs run in order",
            "They do here. On a GPU two programs can both load the old sum before either stores.",
        ),
        wrong_answer(
            ON_A_GPU | {"centred": RACES},
            "reading together is a race",
            "Many programs may load the same address. A race needs a store to an address that "
            "another program touches.",
        ),
        wrong_answer(
            ON_A_GPU | {"centred": REFUSED},
            "a scalar start never compiles",
            "total starts as a scalar and every step adds a scalar to it: its type does not "
            "change, so it compiles.",
        ),
        wrong_answer(
            ON_A_GPU | {"small_dot": FINE},
            "tl.dot takes any size",
            "The inner size of tl.dot must be at least 16; here it is 8.",
        ),
    ),
)


def _sum_cases(rng: Generator) -> list[Case]:
    def drawn(n: int) -> Any:
        x = rng.standard_normal(n) + 0.5
        x[n // 2] += 20  # neither the first part nor the last is the largest
        return _tensor(x)

    return [
        Case("128 numbers in blocks of 16: eight programs", (drawn(128),), {"block": 16}),
        Case("150 numbers in blocks of 64: three programs", (drawn(150),), {"block": 64}),
        Case("7 numbers in a block of 64: one program", (drawn(7),), {"block": 64}),
        Case("1000 numbers in blocks of 64", (drawn(1000),), {"block": 64}, compiled=True),
    ]


def _no_race(case: Case, observed: Observed, expected: Any) -> Finding | None:
    for race in getattr(observed.ledger, "races", []):
        return Finding(
            "does not race",
            f"{race}. One of them stores there and the other loads or stores too, so the answer "
            "depends on which comes first. Here they run in order; on a GPU they do not.",
        )
    return None


def _several_programs(case: Case, observed: Observed, expected: Any) -> Finding | None:
    if observed.ledger is None or case.args[0].numel() <= case.kwargs["block"]:
        return None
    programs = max((int(np.prod(launch.grid)) for launch in observed.ledger.launches), default=0)
    if programs != 1:
        return None
    return Finding(
        "one program per block",
        "one program alone cannot race, but it leaves the rest of the GPU idle: keep one program "
        "per block.",
    )


def _parts(x: Any, block: int) -> np.ndarray:
    """Return the sum of each block."""
    x = as_float64(x)
    return np.add.reduceat(x, np.arange(0, x.size, block))


MENDED_TOTAL = Exercise.of(
    "6.4b",
    cases=_sum_cases,
    truth=lambda x, *, block: as_float64(x).sum(keepdims=True),
    judge=in_turn(_no_race, _float32("the sum", 1e-5), _several_programs),
    kind="kernel",
    races=True,
    mistakes=(
        Mistake(
            "only the last part counts",
            "Each program overwrites what the others stored.",
            lambda x, *, block: _parts(x, block)[-1:],
        ),
        Mistake(
            "only the first part counts",
            "Each program's part has a place of its own: add them all up.",
            lambda x, *, block: _parts(x, block)[:1],
        ),
        Mistake(
            "the largest part, not the sum",
            "tl.atomic_max keeps the largest: tl.atomic_add adds.",
            lambda x, *, block: _parts(x, block).max(keepdims=True),
        ),
        Mistake(
            "each part is added once for each lane",
            "A block of pointers adds once for each of its entries: add one number at one pointer.",
            lambda x, *, block: block * as_float64(x).sum(keepdims=True),
        ),
        Mistake(
            "empty places count as 1",
            "What the mask leaves out is loaded as other: 0.0 adds nothing.",
            lambda x, *, block: as_float64(x).sum(keepdims=True) + -x.numel() % block,
        ),
    ),
)

EXERCISES = (COPY_TILES, TILE_SCORES, MATMUL, WHICH_FAIL, MENDED_TOTAL)
