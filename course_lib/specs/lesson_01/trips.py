"""Exercises 1.1 and 1.3: what attention costs, predicted and counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from course_lib.judging import sizes
from course_lib.judging.judges import within
from course_lib.judging.questions import question, wrong_answers
from course_lib.judging.spec import HARD, Case, Exercise, Mistake

_WRONG_PREDICTIONS = wrong_answers(
    ("linear thinking",
     "The scores have a row and a column for every token: both sides grow as N does, and the area "
     "by the square of that.",
     *((3, line) for line in (1, 2, 3, 4, 5))),
    ("the matmuls dominate",
     "Lines 2 and 5 do nearly all of the arithmetic, but each makes one trip of an N x N matrix. "
     "Count the trips of the other lines. Or do you count the lines from 0?",
     (9, 2), (9, 5)),
    ("the softmax is taken for the dearest line",
     "Line 4 reads one N x N matrix and writes one. Count both for each of the other lines, too.",
     (9, 4)),
    ("how many more, not how many times",
     "what is nine times as large is 8 old sizes larger: return how many times.",
     (8, 3)),
    ("the two values are exchanged", "Return `how many times` first.", (3, 9)),
)  # fmt: skip


# Not the lesson's two predictions: three times N, and lines whose dearest reads two matrices.
PREDICTION = question("1.1", (9, 3), wrong=_WRONG_PREDICTIONS)


def _books(
    n: int,
    d: int,
    itemsize: int,
    *,
    square: int | None = None,
    p: int | None = None,
    linear: int | None = None,
) -> dict[str, float]:
    """Return the answer of 1.3, if S and P have ``square`` bytes each (P ``p``) and Q, K, V, O
    ``linear`` together."""
    s = n * n * itemsize if square is None else square
    p = s if p is None else p
    linear = 4 * n * d * itemsize if linear is None else linear
    total = 2 * s + 2 * p + linear
    return {
        "qkvo": linear,
        "write_s": s,
        "read_s": s,
        "write_p": p,
        "read_p": p,
        "total": total,
        "total_gb": total / 1e9,
        "s_mib": s / 2**20,
    }


def _changed(**changes: Callable[[dict[str, float]], float]) -> Callable[..., dict[str, float]]:
    """Return a model of 1.3 in which some entries are computed from the right ones."""

    def model(n: int, d: int, itemsize: int) -> dict[str, float]:
        right = _books(n, d, itemsize)
        return right | {key: change(right) for key, change in changes.items()}

    return model


def _linear(n_bytes: Callable[[int, int, int], int]) -> tuple[Any, Any]:
    """Return two models of 1.3 in which Q, K, V and O have other bytes: also in the total, or not
    there."""

    def everywhere(n: int, d: int, itemsize: int) -> dict[str, float]:
        return _books(n, d, itemsize, linear=n_bytes(n, d, itemsize))

    def alone(n: int, d: int, itemsize: int) -> dict[str, float]:
        return _books(n, d, itemsize) | {"qkvo": n_bytes(n, d, itemsize)}

    return everywhere, alone


def _totalled(total: Callable[[dict[str, float]], float], **entries: float) -> Any:
    """Return a model of 1.3 with another total, and with these entries."""

    def model(n: int, d: int, itemsize: int) -> dict[str, float]:
        wrong = total(_books(n, d, itemsize))
        return _books(n, d, itemsize) | {"total": wrong, "total_gb": wrong / 1e9} | entries

    return model


def _without_reads(right: dict[str, float]) -> float:
    return right["total"] - right["read_s"] - right["read_p"]


def _trip_cases(rng: Generator) -> list[Case]:
    def case(n: int, d: int, itemsize: int) -> Case:
        return Case(f"n = {n}, d = {d}, itemsize = {itemsize}", (n, d, itemsize))

    n, many = int(rng.integers(100, 5000)), int(rng.integers(1 << 20, 1 << 21))
    d = int(rng.choice([16, 32, 64]))
    few, odd = (2 * int(x) + 1 for x in rng.choice(12, 2, replace=False))
    drawn = [(8192, 128, 2), (n, d, 4), (3, 2, 2), (many, 128, 4), (few, odd, 1)]
    levels = sizes.paired(rng, n=sizes.COUNTS, d=sizes.BESIDE, itemsize=sizes.ITEMSIZES)
    drawn += [(one["n"], one["d"](one["n"]), one["itemsize"]) for one in levels]
    drawn += sizes.one_changed((n, d, 2), (n + 1, d + 1, 4))
    return [case(*one) for one in dict.fromkeys(drawn)]


_TRIP_MISTAKES = Mistake.table(
    ("the reads are forgotten in the total",
     "What was written is read again by the next step: S and P count twice each.",
     _totalled(_without_reads)),
    ("Q, K, V and O are not in the total",
     "The total is all trips: S and P, and Q, K, V and O as well.",
     _totalled(lambda right: right["total"] - right["qkvo"])),
    ("a reading counts nothing", "Reading a matrix moves as many bytes as writing it.",
     _changed(read_s=lambda _: 0, read_p=lambda _: 0),
     _totalled(_without_reads, read_s=0, read_p=0)),
    ("the total adds what is no trip",
     "s_mib is the size of S in another unit, and total_gb the total: add up the bytes alone, Q, "
     "K, V and O and the four trips.",
     _totalled(lambda right: right["total"] + right["s_mib"]),
     _totalled(lambda right: right["total"] + right["total_gb"]),
     _totalled(lambda right: right["total"] + right["total_gb"] + right["s_mib"])),
    ("six trips instead of four",
     "Eager code that scales the scores makes six. The exercise asks for four.",
     _totalled(lambda right: right["total"] + right["write_s"] + right["read_s"])),
    ("KiB instead of MiB", "Dividing by 1024 once gives KiB. MiB are bytes / 2**20.",
     _changed(s_mib=lambda right: right["write_s"] / 1024)),
    ("MB instead of MiB", "s_mib is in MiB: divide by 2**20, not by 10**6.",
     _changed(s_mib=lambda right: right["write_s"] / 1e6)),
    ("a fraction is cut off",
     "s_mib and total_gb have a fraction: divide with /, as // drops it.",
     _changed(s_mib=lambda right: right["write_s"] // 2**20,
              total_gb=lambda right: right["total"] // 10**9),
     _changed(s_mib=lambda right: right["write_s"] // 2**20),
     _changed(total_gb=lambda right: right["total"] // 10**9)),
    ("K and V are read for each query",
     "what is asked for is a trip of each matrix: K and V are read once, however many rows of Q "
     "they meet.",
     *_linear(lambda n, d, itemsize: (2 * n * d + 2 * n * n * d) * itemsize)),
    ("GiB instead of GB", "total_gb is in GB: divide by 10**9, not by 2**30.",
     _changed(total_gb=lambda right: right["total"] / 2**30)),
    ("MiB and GB the wrong way round", "GB is a power of ten, MiB a power of two.",
     _changed(s_mib=lambda right: right["write_s"] / 1e6,
              total_gb=lambda right: right["total"] / 2**30)),
    ("elements instead of bytes", "An element has `itemsize` bytes: multiply by it.",
     lambda n, d, itemsize: _books(n, d, 1),
     *_linear(lambda n, d, itemsize: 4 * n * d)),
    ("O is forgotten", "Q, K and V are read, and O is written: four matrices of n x d.",
     *_linear(lambda n, d, itemsize: 3 * n * d * itemsize)),
    ("only one of Q, K, V and O", "Q, K, V and O are four matrices of n x d.",
     *_linear(lambda n, d, itemsize: n * d * itemsize)),
    ("always two bytes per element", "itemsize is the number of bytes: multiply by it, not by 2.",
     lambda n, d, itemsize: _books(n, d, itemsize, square=2 * n * n),
     lambda n, d, itemsize: _books(n, d, itemsize, linear=8 * n * d),
     lambda n, d, itemsize: _books(n, d, 2)),
    ("P is counted in fp32", "all matrices have `itemsize` bytes a number here, P as well.",
     lambda n, d, itemsize: _books(n, d, itemsize, p=4 * n * n)),
    ("causal halves the scores", "nothing is masked here: S has n * n numbers, whoever sees whom.",
     lambda n, d, itemsize: _books(n, d, itemsize, square=n * (n + 1) // 2 * itemsize),
     lambda n, d, itemsize: _books(n, d, itemsize, square=n * n // 2 * itemsize)),
    ("S is n x d", "S has a row and a column for every token: n x n.",
     lambda n, d, itemsize: _books(n, d, itemsize, square=n * d * itemsize)),
)  # fmt: skip


TRIPS = Exercise.of(
    "1.3",
    cases=_trip_cases,
    truth=_books,
    judge=within(1e-9),
    spared=dict.fromkeys(HARD, "counts bytes"),
    mistakes=_TRIP_MISTAKES,
)
