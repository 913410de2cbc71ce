"""Exercise 4.4: is a tile skipped, partial or full?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging.desk import misfit
from course_lib.judging.finding import Finding
from course_lib.judging.judges import exactly
from course_lib.judging.spec import HARD, Case, Exercise, Mistake, Observed, table


def _classify(row_start: int, row_stop: int, col_start: int, col_stop: int, offset: int = 0) -> str:
    allowed = np.arange(col_start, col_stop) <= np.arange(row_start, row_stop)[:, None] + offset
    return "full" if allowed.all() else "partial" if allowed.any() else "skip"


def _tile_cases(rng: Generator) -> list[Case]:
    b = int(rng.integers(3, 9))  # square tiles of b; c is a different width
    c, shift = b + int(rng.integers(1, 5)), int(rng.integers(2, 40))
    tiles: list[tuple[str, tuple[int, ...]]] = [
        ("all keys in the past", (3 * b, 4 * b, b, 2 * b)),
        ("a tile on the diagonal", (2 * b, 3 * b, 2 * b, 3 * b)),
        ("all keys in the future", (0, b, 2 * b, 3 * b)),
        ("the tile just right of the diagonal", (b, 2 * b, 2 * b, 3 * b)),
        ("the tile just left of the diagonal", (2 * b, 3 * b, b, 2 * b)),
        ("only the last query sees the first key", (0, b, b - 1, b + c)),
        ("only one pair is hidden", (b, 2 * b, 0, b + 2)),
        ("the last key is the first query's own", (b, 2 * b, 0, b + 1)),
        ("old keys before the queries", (0, b, shift, shift + c, shift + c)),
        ("diagonal with an offset", (0, b, shift, shift + b, shift)),
        ("future with an offset", (0, b, shift + b, shift + b + c, shift)),
        ("more queries than keys: a negative offset", (b, 2 * b, 0, c, -2 * b)),
        # those of the task
        ("columns 0 to 3 for rows 4 to 7", (4, 8, 0, 4)),
        ("2 new queries after 8 old keys", (0, 2, 0, 10, 8)),
    ]
    shapes = {
        "one pair": (1, 1),
        "a single query": (1, c),
        "a single key": (c, 1),
        "wider than tall": (b, c),
        "taller than wide": (c, b),
        "much wider than tall": (b, 4 * c),
        "much taller than wide": (4 * c, b),
        "two keys, and more than 100 queries": (int(rng.integers(101, 140)), 2),
        "two queries, and more than 100 keys": (2, int(rng.integers(101, 140))),
    }
    near = int(rng.integers(4 * c, 99))
    beyond = (int(x) for x in rng.integers(np.array([2**15, 2**16]), [2**15 + 9000, 2**16 + 9000]))
    # the first rows of all; what does not fit into 16 bits, with a sign and without, or float32
    for first in (0, near, *beyond, 2**25 + 1):
        for name, shape in shapes.items():
            tiles += [(name, tile) for tile in _around_the_diagonal(*shape, first, near)]
    return [Case("", (tiles,))]


def _around_the_diagonal(h: int, w: int, first: int, old: int) -> Iterator[tuple[int, ...]]:
    """Yield tiles of h queries, at the positions from ``first`` on, and w keys: where the word
    changes, and far from there; without an offset, with ``old`` keys before, and with fewer."""
    last = first + h - 1
    borders = (last + 1, last, first - w + 1, first - w + 2)
    for start in (*borders, 0, first // 2, 2 * first + h):
        for offset in (0, old, first, -old):
            row = first - offset
            if start >= 0 and row >= 0:
                yield row, row + h, start, start + w, offset


def _tile_words(r0: int, r1: int, c0: int, c1: int, offset: int = 0) -> str:
    return f"rows [{r0}, {r1}), columns [{c0}, {c1}), offset {offset}"


def _run_tiles(function: Callable[..., Any], case: Case) -> Observed:
    (tiles,) = case.args
    if complaint := misfit(function, *tiles[-1][1]):
        return Observed(None, complaint)
    return Observed([function(*where) for _, where in tiles])


def _judge_tiles(case: Case, observed: Observed, expected: Any) -> Finding | None:
    if isinstance(observed.ledger, str):
        return Finding("signature", observed.ledger)
    for (name, where), got, word in zip(case.args[0], observed.result, expected, strict=True):
        if finding := exactly(case, Observed(got), word):
            return Finding(finding.property, f"{name}: {_tile_words(*where)}: {finding.says}")
    return None


def _words(rule: Callable[..., str]) -> Callable[..., list[str]]:
    return lambda tiles: [rule(*where) for _, where in tiles]


def _by_corners(
    skip: Callable[[int, int, int, int], bool] = lambda q0, q1, k0, k1: q1 < k0,
    full: Callable[[int, int, int, int], bool] = lambda q0, q1, k0, k1: q0 >= k1,
) -> Callable[..., str]:
    """Return a rule about the first and last query (at their positions) and key of a tile."""

    def rule(r0: int, r1: int, c0: int, c1: int, offset: int = 0) -> str:
        corners = (r0 + offset, r1 - 1 + offset, c0, c1 - 1)
        return "skip" if skip(*corners) else "full" if full(*corners) else "partial"

    return rule


def _moved(by: Callable[[int], int]) -> Callable[..., str]:
    """Return the right rule, given another offset."""
    return lambda r0, r1, c0, c1, offset=0: _classify(r0, r1, c0, c1, by(offset))


def _offset_in(*rules: str) -> Callable[..., str]:
    """Return the right rule, in which the offset counts for these of "skip" and "full" only."""

    def rule(r0: int, r1: int, c0: int, c1: int, offset: int = 0) -> str:
        skip, full = (offset if name in rules else 0 for name in ("skip", "full"))
        if r1 - 1 + skip < c0:
            return "skip"
        return "full" if r0 + full >= c1 - 1 else "partial"

    return rule


def _by_number(r0: int, r1: int, c0: int, c1: int, offset: int = 0, *, with_offset: bool) -> str:
    """Return what somebody says who compares the numbers of tiles."""
    i, j = (r0 + with_offset * offset) // (r1 - r0), c0 // (c1 - c0)
    return "skip" if j > i else "full" if j < i else "partial"


_RULES = table(
    ("the offset is ignored", "query i stands at position i + offset.", _moved(lambda offset: 0)),
    ("the offset has the wrong sign",
     "query i stands at position i + offset. The keys stay where they are.",
     _moved(lambda offset: -offset)),
    ("the offset counts in one of the two rules",
     "query i stands at position i + offset: the last query, where a tile is skipped, and the "
     "first, where it is full.",
     _offset_in("skip"), _offset_in("full")),
    ("a negative offset is taken for 0",
     "with more queries than keys the offset is negative, and the first queries see no key.",
     _moved(lambda offset: max(offset, 0))),
    ("the rule is reversed",
     "min(query) > max(key) finds the tiles where everything is allowed; skip where even the last "
     "query comes before the first key: max(query) < min(key).",
     _by_corners(lambda q0, q1, k0, k1: q0 > k1, lambda q0, q1, k0, k1: q1 < k0),
     _by_corners(lambda q0, q1, k0, k1: q0 > k1, lambda q0, q1, k0, k1: q1 <= k0),
     _by_corners(lambda q0, q1, k0, k1: q0 >= k1, lambda q0, q1, k0, k1: q1 < k0),
     lambda r0, r1, c0, c1, offset=0: _classify(c0, c1, r0, r1, offset)),
    ("diagonal tiles are called full",
     "the diagonal cuts through this tile: some of its pairs lie in the future, so it needs the "
     "mask.",
     _by_corners(full=lambda *corners: True),
     _by_corners(full=lambda q0, q1, k0, k1: q1 >= k1)),
    ("stop is counted as part of the tile",
     "the last query is row_stop - 1 and the last key is col_stop - 1. A query sees its own key: "
     "compare these with <= where you count so, not with <.",
     _by_corners(lambda q0, q1, k0, k1: q1 + 1 < k0, lambda q0, q1, k0, k1: q0 > k1),
     _by_corners(lambda q0, q1, k0, k1: q1 + 1 < k0)),
    ("a tile that ends at the first query's own key counts as partial",
     "the last key is col_stop - 1, and a query sees its own key: where the first query stands at "
     "col_stop - 1 it sees the whole tile, and so do all after it.",
     _by_corners(full=lambda q0, q1, k0, k1: q0 > k1)),
    ("a query does not see its own key",
     "j <= i + offset allows j = i + offset: a tile with that one pair is not skipped.",
     _moved(lambda offset: offset - 1),
     _by_corners(lambda q0, q1, k0, k1: q1 <= k0)),
    ("a query sees one key of the future", "the last key that query i sees is i + offset.",
     _moved(lambda offset: offset + 1)),
    ("only the starts are compared",
     "that is right for square tiles on the diagonal only: two corners decide, the last query "
     "with the first key and the first query with the last key.",
     _by_corners(lambda q0, q1, k0, k1: q0 < k0, lambda q0, q1, k0, k1: q0 > k0)),
    ("tile numbers are compared, not positions",
     "numbers of tiles say who sees whom where all are square and begin together: two corners "
     "decide, at their positions.",
     *(partial(_by_number, with_offset=x) for x in (True, False))),
    ("nothing is ever full",
     "this is safe but wasteful: here every pair is allowed, so no mask is needed.",
     _by_corners(full=lambda *corners: False)),
    ("nothing is ever skipped", "no pair of this tile is allowed: do not even load it.",
     _by_corners(skip=lambda *corners: False)),
)  # fmt: skip


EXERCISE = Exercise.of(
    "4.4",
    cases=_tile_cases,
    truth=_words(_classify),
    judge=_judge_tiles,
    run=_run_tiles,
    spared=dict.fromkeys(HARD, "compares positions, one tile at a time"),
    mistakes=tuple(Mistake(name, says, _words(rule)) for name, says, rule in _RULES),
)
