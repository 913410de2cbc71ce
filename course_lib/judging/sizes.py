"""Sizes that stand in a relation to each other: equal, one more, one alone, far beyond.

Code that is right for most sizes is wrong where one of them is another, or 1, or larger than what
somebody wrote down. So each size of a case is drawn from levels that stand for such relations, and
the cases together have every level of every size (a Latin hypercube); which levels meet, is chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from numpy.random import Generator

TILES = (1, 3, 8, 16, 24, 33, 64, 96, 128)  # powers of two and others, on both sides of 32 and 64
DIMS = (1, 2, 3, 17, 32, 65, 96)
LENGTHS = (  # of rows in a tile: fewer, one tile, some, with a row or more left or lacking
    lambda tile: tile,
    lambda tile: max(tile // 2, 1),
    lambda tile: 2 * tile,
    lambda tile: tile + 1,
    lambda tile: 3 * tile + (tile + 1) // 2,
    lambda tile: 1,
    lambda tile: max(2 * tile - 1, 1),
)
BESIDE = (  # of one number beside another: as many, one more or less, twice, half, one, far more
    lambda n: n,
    lambda n: n + 1,
    lambda n: max(n - 1, 1),
    lambda n: 2 * n,
    lambda n: max(n // 2, 1),
    lambda n: 1,
    lambda n: n + 100,
)
WITHIN = (  # of some among n: none, one, all, all but one, half
    lambda n: 0,
    lambda n: 1,
    lambda n: n,
    lambda n: n - 1,
    lambda n: n // 2,
)
SPLITS = (  # of keys: all in one, two, one each, one empty, some, more than half
    lambda n: 1,
    lambda n: 2,
    lambda n: min(n, 17),
    lambda n: min(n + 1, 18),
    lambda n: 5,
    lambda n: max(n // 2 + 1, 2) if n < 24 else 13,
)
COUNTS = (1, 2, 3, 8, 17, 65, 128, 300)
FEW = (1, 2, 3)  # batches, heads in a group
HEADS = (1, 2, 3, 5, 8)
WIDTHS = (1, 2, 3, 17, 65)
ITEMSIZES = (1, 2, 4, 8)


def related(rng: Generator, count: int, **levels: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield ``count`` choices that together have every level of every name, if there are as many.

    Each level comes as often as the others, once more or less.
    """
    turns = {}
    for name, choices in levels.items():
        order = [*rng.permutation(len(choices))]
        turns[name] = rng.permutation((order * (count // len(order) + 1))[:count])
    for i in range(count):
        yield {name: choices[turns[name][i]] for name, choices in levels.items()}


def tiled(
    rng: Generator,
    count: int = 14,
    *,
    dims: Sequence[int] = DIMS,
    tiles: Sequence[int] = TILES,
    **more: Sequence[Any],
) -> Iterator[tuple[Any, ...]]:
    """Yield (n_q, n_k, d, block_q, block_k), every level of each at least once; but two keys or
    more, for with one there is nothing to weigh. ``more`` levels stand behind them."""
    own = {"rows": LENGTHS, "keys": LENGTHS, "d": dims, "block_q": tiles, "block_k": tiles}
    for one in related(rng, count, **own, **more):
        block_q, block_k = one["block_q"], one["block_k"]
        n_q, n_k = one["rows"](block_q), max(one["keys"](block_k), 2)
        yield n_q, n_k, one["d"], block_q, block_k, *(one[name] for name in more)


def paired(rng: Generator, **levels: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield choices that together have every level of a name beside every level of every other.

    For what is wrong only where two things come together; more cases than `related`.
    """
    at = {name: range(len(choices)) for name, choices in levels.items()}
    lacking = dict.fromkeys(  # in an order that is the same every time, as a set's is not
        ((a, i), (b, j)) for a, b in combinations(levels, 2) for i, j in product(at[a], at[b])
    )
    while lacking:
        wanted = dict(next(iter(lacking)))
        drawn = [
            {name: int(rng.integers(len(n))) for name, n in at.items()} | wanted for _ in range(8)
        ]
        best = max(drawn, key=lambda one: sum(pair in lacking for pair in _pairs(one)))
        for pair in _pairs(best):
            lacking.pop(pair, None)
        yield {name: levels[name][i] for name, i in best.items()}


def _pairs(one: Mapping[str, int]) -> Iterator[Any]:
    return combinations(one.items(), 2)


def attention(rng: Generator) -> Iterator[tuple[int, int, int]]:
    """Yield (n_q, n_k, d), each in every relation to the next; but two keys or more."""
    for one in paired(rng, rows=BESIDE, keys=BESIDE, d=WIDTHS):
        n_k = max(one["keys"](one["d"]), 2)
        yield one["rows"](n_k), n_k, one["d"]


def one_changed(these: tuple[Any, ...], others: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield arguments, and them with one at a time exchanged for that of ``others``.

    Who keeps answers by some of the arguments gives an old one for a new question.
    """
    yield these
    for i, other in enumerate(others):
        yield *these[:i], other, *these[i + 1 :]
