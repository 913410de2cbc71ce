"""8.2a: predict masked tiles and loads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from course_lib.accounting.traffic import derived_counts
from course_lib.judging.finding import Finding
from course_lib.judging.judges import exactly
from course_lib.judging.spec import HARD, Case, Exercise, Mistake, Observed


def _counts(n: int, block_q: int, block_k: int) -> tuple[int, int]:
    counts = derived_counts(n, n, block_q, block_k, causal=True)
    return counts["visited_tiles"], counts["partial_tiles"]


def _count_cases(rng: Generator) -> list[Case]:
    block, times = int(rng.choice([16, 32, 64])), int(rng.integers(3, 40))
    wide, tall = int(rng.choice([2, 4])), int(rng.choice([2, 4]))
    sizes = [
        (16, 4, 4),
        (16, 4, 1),  # with one key in a tile every slip by one shows
        (8, 1, 2),
        (block * times, block, block),
        (block * tall * times, block * tall, block),
        (block * wide * times, block, block * wide),
        (64, 64, 64),
        (int(rng.integers(300, 600)), 1, 1),  # more tiles than 16 bits count
        (128 * int(rng.integers(60, 120)), 128, 64),
    ]
    return [Case(f"n = {n}, tiles {b_q} x {b_k}", (n, b_q, b_k)) for n, b_q, b_k in sizes]


def _judge(case: Case, observed: Observed, expected: tuple[int, int]) -> Finding | None:
    """Judge two whole numbers, and say which is off and on which side."""
    finding = exactly(case, observed, expected)
    if finding is None or finding.property != "the answer":
        return finding
    counts = zip(("loaded", "masked"), observed.result, expected, strict=True)
    name, got, right = next(count for count in counts if count[1] != count[2])
    side = "many" if got > right else "few"
    return Finding("the answer", f"{name}: yours is {got:g} tiles; that is too {side}.")


class _Tiles(NamedTuple):
    """What somebody may count with; ``loaded`` and ``masked`` are right."""

    n: int
    block_q: int
    block_k: int
    t_q: int
    t_k: int
    loaded: int
    masked: int

    @property
    def ends(self) -> range:
        """How many keys the last row of each tile of queries sees."""
        return range(self.block_q, self.n + 1, self.block_q)


def _miscount(counts: Callable[[_Tiles], tuple[float, float]]) -> Callable[..., Any]:
    """Return a model that counts loaded and masked tiles otherwise."""

    def model(n: int, block_q: int, block_k: int) -> tuple[float, float]:
        right = _counts(n, block_q, block_k)
        return counts(_Tiles(n, block_q, block_k, n // block_q, n // block_k, *right))

    return model


def _rounded_down(at: _Tiles, *, least: int, whole: bool) -> tuple[float, float]:
    """Return the counts of whole tiles of keys alone; ``whole``: in the masked ones as well."""
    ends = [max(least, n // at.block_k) for n in at.ends]
    inside = sum((n + 1 - at.block_q) // at.block_k for n in at.ends)
    return sum(ends), sum(ends) - inside if whole else at.masked


def _strided(n: int, block_q: int, block_k: int) -> tuple[int, int]:
    """Return the counts of "tiles" of rows and keys that lie apart, not side by side."""
    seen = np.tri(n, dtype=bool).reshape(block_q, n // block_q, block_k, n // block_k)
    some, every = seen.any(axis=(0, 2)), seen.all(axis=(0, 2))
    return int(some.sum()), int((some & ~every).sum())


_MISTAKES = Mistake.table(
    ("the rows of a tile lie apart",
     "a matrix in tiles is (tiles, rows of a tile, tiles, keys of a tile): the tile's number comes "
     "first in each pair of axes, and any and all run over the second ones.",
     _strided),
    ("causal saves half",
     "half of the tiles would be right if tiles were single scores. Those on the diagonal are "
     "loaded whole: (T + 1) / 2T of all, 62.5 % at 4 x 4.",
     _miscount(lambda at: (at.t_q * at.t_k / 2, at.masked)),
     _miscount(lambda at: (at.t_q * at.t_k // 2, at.t_q)),
     _miscount(lambda at: (
         at.t_q * at.t_k // 2 + max(at.t_q, at.t_k) // 2, at.masked))),
    ("the diagonal is not loaded",
     "the tiles on the diagonal hold keys that some rows see: they are loaded.",
     _miscount(lambda at: (at.loaded - at.masked, at.masked))),
    ("nothing is skipped", "tiles of the future are not loaded.",
     _miscount(lambda at: (at.t_q * at.t_k, at.masked))),
    ("every loaded tile is masked",
     "a tile that every row sees whole needs no mask: only those at the diagonal do.",
     _miscount(lambda at: (at.loaded, at.loaded))),
    ("the diagonal needs no mask",
     "a tile on the diagonal holds keys that its first row may not see.",
     _miscount(lambda at: (at.loaded, 0))),
    ("the last keys of a tile of queries are in no tile",
     "a tile of queries may end in the middle of a tile of keys, and its last rows see some of it: "
     "round up.",
     *(_miscount(partial(_rounded_down, least=least, whole=whole))
       for least in (0, 1) for whole in (True, False))),
    ("the last row decides what is whole",
     "a tile needs no mask if every row sees all of it, the first one, too: that row sees first + "
     "1 keys.",
     _miscount(lambda at: (at.loaded, at.loaded - sum(n // at.block_k for n in at.ends)))),
    ("only square tiles",
     "one masked tile per tile of queries is right for square tiles only: a tall tile of queries "
     "meets the diagonal in several tiles of keys.",
     _miscount(lambda at: (at.loaded, at.t_q))),
    ("only square tiles", "T (T + 1) / 2 is right for square tiles only.",
     _miscount(lambda at: (at.t_q * (at.t_q + 1) // 2, at.t_q)),
     _miscount(lambda at: (at.t_k * (at.t_k + 1) // 2, at.t_k))),
    ("a tile that ends at the diagonal is masked",
     "a tile of keys that ends with the first row's own key is seen by every row, and needs no "
     "mask: query i sees i + 1 keys, 0 to i.",
     _miscount(lambda at: (
         at.loaded,
         at.loaded - sum(first // at.block_k for first in range(0, at.n, at.block_q))))),
    ("shares, not numbers of tiles",
     "these are shares of all tiles: return how many tiles there are.",
     _miscount(lambda at: (at.loaded / (at.t_q * at.t_k), at.masked / (at.t_q * at.t_k)))),
    ("the two values are exchanged", "return the loaded tiles first, then the masked ones.",
     _miscount(lambda at: (at.masked, at.loaded))),
    ("full tiles, not masked ones", "the second number is that of the tiles that need no mask.",
     _miscount(lambda at: (at.loaded, at.loaded - at.masked))),
    ("scores, not tiles", "these are single scores: count tiles.",
     _miscount(lambda at: (at.n * (at.n + 1) // 2, at.n))),
)  # fmt: skip


COUNT = Exercise.of(
    "8.2a",
    cases=_count_cases,
    truth=_counts,
    judge=_judge,
    spared=dict.fromkeys(HARD, "counts whole tiles, by a formula"),
    mistakes=_MISTAKES,
)
