"""Launches of kernels whose sizes stand in a relation to each other; see `sizes`.

Small ones, of ordinary numbers: a kernel that is wrong for one row, one key, one split or a tile
plus one is wrong for any numbers, and nothing else is asked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging import sizes
from course_lib.judging.spec import Case

TILES = (16, 32)  # tl.dot takes 16 at least
DIMS = (16, 32, 64)
WIDE = 128  # where a kernel multiplies tiles of many rows
HEADS = ((1, 1), (1, 3), (3, 1), (2, 3))  # (batch, heads)


def tiled_launches(
    rng: Generator,
    case: Callable[..., Case] | None = None,
    *,
    count: int = 7,
    causal: Sequence[bool | None] = (None,),
) -> list[Case]:
    """Return launches of every relation of queries and keys to their tiles, drawn by ``case``.

    And where all sizes are one, or lengths are whole tiles of the other side only.
    """
    case = case or partial(draw.launch, rng)
    least, most = TILES
    drawn = [
        *sizes.tiled(rng, count, dims=(*DIMS, WIDE), tiles=TILES, causal=causal, heads=HEADS),
        *(
            (least, least, least, least, least, is_causal, (1, 1))
            for is_causal in dict.fromkeys(causal)
        ),
        (3 * least, 3 * least, least, least, most, causal[-1], (1, 1)),
        (3 * least, 3 * least, least, most, least, causal[-1], (1, 1)),
    ]
    return [
        case(
            f"{'causal, ' if is_causal else ''}{' x '.join(map(str, heads))} heads, {n_q} queries, "
            f"{n_k} keys, tiles of {block_q} and {block_k}, d = {d}",
            n_q, n_k, d, tiles=(block_q, block_k), causal=is_causal, heads=heads,
        )
        for n_q, n_k, d, block_q, block_k, is_causal, heads in drawn
    ]  # fmt: skip


def decode_launches(
    rng: Generator, rows: int, *, batch: int = 2, count: int = 7, **more: Sequence[Any]
) -> Iterator[tuple[Case, Mapping[str, Any]]]:
    """Yield launches of one query a head, and the levels that each has of ``more``.

    The heads of a group are the ``rows``, or fewer, of one tile.
    """
    own = {"keys": sizes.LENGTHS, "block_k": TILES, "group": (1, 2, 3, 5, rows), "d": DIMS}
    for one in sizes.related(rng, count, **own, kv_heads=sizes.FEW, **more):
        group, block_k, n = one["group"], one["block_k"], max(one["keys"](one["block_k"]), 2)
        name = (
            f"{group * one['kv_heads']} heads on {one['kv_heads']}, {n} keys in tiles of "
            f"{block_k}, d = {one['d']}"
        )
        heads = (batch, one["kv_heads"])
        yield draw.launch(rng, name, group, n, one["d"], heads=heads, tiles=(rows, block_k)), one
