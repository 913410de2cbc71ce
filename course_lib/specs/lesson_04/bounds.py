"""Exercise 4.1: where tiles begin and end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import sizes as by_relation
from course_lib.judging.finding import Finding
from course_lib.judging.judges import exactly
from course_lib.judging.spec import FAR, JUMPS, REMAINDER, Case, Exercise, Mistake, Observed


def _bounds(n: int, tile: int) -> list[tuple[int, int]]:
    return [(start, min(start + tile, n)) for start in range(0, n, tile)]


def _bounds_cases(rng: Generator) -> list[Case]:
    tile = int(rng.integers(3, 40))
    whole, rest = int(rng.integers(2, 7)), int(rng.integers(1, tile - 1))
    sizes = [
        (257, 128),
        (10, 4),
        (int(rng.integers(3, 7)), 1),
        (1, 1),
        (0, 4),
        (tile * whole, tile),
        (tile * whole + rest, tile),
        (tile - 1, tile),
        (100_000 + rest, 4096),
        (int(rng.integers(1100, 1200)), 1),  # more calls than Python lets a recursion make
        (2**25 + 1, 2**20),  # float32 has no odd numbers there
        *((n(tile), tile) for tile in (*by_relation.TILES, 256, 999) for n in by_relation.LENGTHS),
    ]
    return [
        Case(f"n = {n}, tile = {tile}", (n, tile), shows=frozenset({REMAINDER} if n == 257 else ()))
        for n, tile in sizes
    ]


def _judge_bounds(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Judge the pairs: whole numbers, for Python slices by nothing else."""
    if finding := exactly(case, observed, expected):
        return finding
    for pair in observed.result:
        for x in pair:
            if isinstance(x, float | np.floating):
                says = f"a slice takes whole numbers: {x!r} is a float, and {int(x)} is meant."
                return Finding("whole numbers", says)
    return None


_BOUNDS_MISTAKES = Mistake.table(
    ("the short last tile is dropped",
     "257 rows make ceil(257 / 128) = 3 tiles, not 2: the last row needs one too.",
     lambda n, tile: _bounds(n // tile * tile, tile)),
    ("the last tile runs past the end",
     "stop must not pass n: the last tile may be shorter than the others.",
     lambda n, tile: [(start, start + tile) for start in range(0, n, tile)]),
    ("stop is the last row of the tile",
     "stop is the first row that does not belong to the tile, as in a Python slice.",
     lambda n, tile: [(start, stop - 1) for start, stop in _bounds(n, tile)]),
    ("one tile too many", "n // tile + 1 is one too many where tile divides n: use ceil.",
     lambda n, tile: [(i * tile, min((i + 1) * tile, n)) for i in range(n // tile + 1)]),
    ("the last row is left out",
     "the last stop is n, not n - 1: stop is the first row that does not belong to the tile.",
     lambda n, tile: [(start, min(stop, n - 1)) for start, stop in _bounds(n, tile)]),
    ("the length in place of stop", "a pair is (start, stop), not (start, number of rows).",
     lambda n, tile: [(start, stop - start) for start, stop in _bounds(n, tile)]),
    ("rows are counted from 1", "the first row is row 0.",
     lambda n, tile: [(start + 1, stop) for start, stop in _bounds(n, tile)]),
)  # fmt: skip


EXERCISE = Exercise.of(
    "4.1",
    cases=_bounds_cases,
    truth=_bounds,
    judge=_judge_bounds,
    spared=dict.fromkeys((JUMPS, FAR), "there are no scores"),
    mistakes=_BOUNDS_MISTAKES,
)
