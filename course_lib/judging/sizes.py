"""Sizes that stand in a relation to each other: equal, one more, one alone, far beyond.

Code that is right for most sizes is wrong where one of them is another, or 1, or larger than what
somebody wrote down. So each size of a case is drawn from levels that stand for such relations, and
the cases together have every level of every size (a Latin hypercube); which levels meet, is chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


def tiled(rng: Generator, count: int = 14, **more: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield (n_q, n_k, d, block_q, block_k), every level of each at least once; but two keys or
    more, for with one there is nothing to weigh. ``more`` levels stand behind them."""
    own = {"rows": LENGTHS, "keys": LENGTHS, "d": DIMS, "block_q": TILES, "block_k": TILES}
    for one in related(rng, count, **own, **more):
        block_q, block_k = one["block_q"], one["block_k"]
        n_q, n_k = one["rows"](block_q), max(one["keys"](block_k), 2)
        yield n_q, n_k, one["d"], block_q, block_k, *(one[name] for name in more)
