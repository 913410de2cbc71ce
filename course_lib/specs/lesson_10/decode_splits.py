"""Exercise 10.5: the keys are split among programs, each of which returns a part."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging import sizes
from course_lib.judging.decode_judge import (
    JUDGE,
    OF_PACKING,
    OF_THE_LOOP,
    ROWS,
    TRUTH,
    Parts,
    Run,
    decode_case,
    half_launches,
)
from course_lib.judging.sized_launches import decode_launches
from course_lib.judging.spec import Case, Exercise, Mistake
from course_lib.specs.lesson_10.caches import NOT_NONE


def _cases(rng: Generator) -> list[Case]:
    case = partial(draw.launch, rng)
    drawn = [
        (case("2 batches, 6 heads share 2 key heads, 100 keys in 3 splits, tiles of 16",
              3, 100, 16, heads=(2, 2), tiles=(ROWS, 16)), 3),
        (case("one split", 4, 50, 32, tiles=(ROWS, 32)), 1),
        (case("7 keys in 5 splits: 2, 2, 2, 1 and none",
              3, 7, 16, heads=(1, 2), tiles=(ROWS, 16)), 5),
        (case("6 keys in 4 splits: the last begins where the keys end",
              3, 6, 16, heads=(1, 2), tiles=(ROWS, 16)), 4),
        (case("4 splits of 17 keys, and the last has 14, strided memory",
              1, 65, 16, heads=(2, 2), tiles=(ROWS, 16), strided="all"), 4),
        (case("2 splits of 64 keys, all scores near -150",
              8, 128, 16, near=-150, tiles=(ROWS, 32)), 2),
        (case("3 splits of 33 keys, all scores near -20",
              4, 99, 16, near=-20, tiles=(ROWS, 32)), 3),
        (case("the scores climb along the row, tiles as tall as d",
              3, 190, 32, rise=120, tiles=(ROWS, 32)), 2),
        (case("float16, 8 heads share 2 key heads, 150 keys in 3 splits, d = 64",
              4, 150, 64, heads=(1, 2), dtype="float16", tiles=(ROWS, 32), compiled=True), 3),
        *((one, 1) for one in half_launches(rng)),
        (case("2 splits of 16 and 15 keys, tiles of 16", 3, 31, 16, tiles=(ROWS, 16)), 2),
        (case("3 splits of 32, 32 and 30 keys, tiles of 32", 3, 94, 16, tiles=(ROWS, 32)), 3),
        (case("4 splits of 78 keys, and the last has 76", 3, 310, 16, tiles=(ROWS, 64)), 4),
        *_sized(rng),
        # the last in one split: the second tiles of two hold one key each, which weighs too little
        *zip(draw.hard_launches(rng, 3, 66, 16, tiles=(ROWS, 32)), (2, 2, 2, 1), strict=True),
        (case("200 keys in 6 splits, counted",
              8, 200, 16, heads=(1, 2), tiles=(ROWS, 32), counted=True), 6),
        (draw.roomy_launch(rng, 3, 40, 16, tiles=(ROWS, 16)), 2),
        (draw.many_heads_launch(case, 1, tiles=(ROWS, 16)), 1),
        (case("65 keys in 65 splits", 1, 65, 16, tiles=(ROWS, 16)), 65),
    ]  # fmt: skip
    return [decode_case(one, splits=splits) for one, splits in drawn]


def _sized(rng: Generator) -> Iterator[tuple[Case, int]]:
    for one, has in decode_launches(rng, ROWS, batch=1, splits=sizes.SPLITS):
        splits = has["splits"](one.args[1].shape[2])
        yield replace(one, name=f"{one.name}, {splits} splits"), splits


def _to_whole_tiles(at: Run) -> np.ndarray:
    """Return the split's keys and, in its last tile, those of its neighbour."""
    first = at.split * at.share
    return np.arange(first, min(first + at.tiles * at.block_k, at.length))


def _neighbours_as_zeros(
    q: Any, k: Any, v: Any, *lengths: Any, splits: int, block_k: int = 64
) -> Any:
    """Return parts whose last tile has a score of 0 for each key of the neighbour's.

    The loads end with the split, the mask of the scores with the sequence.
    """
    import torch

    n = k.shape[2]
    k, v = (torch.nn.functional.pad(x, (0, 0, 0, 1)) for x in (k, v))  # what a masked load brings

    def share(at: Run) -> np.ndarray:
        own = at._replace(n=n, length=min(at.length, n))
        reached = _to_whole_tiles(own)
        return np.where(np.isin(reached, own.keys), reached, n)

    return Parts(share=share)(q, k, v, *lengths, splits=splits, block_k=block_k)


def _in_tiles(split_of: Callable[[Run, np.ndarray], np.ndarray]) -> Parts:
    """Return the parts of somebody who gives whole tiles, by their numbers, to splits."""

    def share(at: Run) -> np.ndarray:
        keys = np.arange(at.length)
        return np.asarray(keys[split_of(at, keys // at.block_k) == at.split])

    return Parts(share=share)


def _rest_to_the_last(at: Run) -> np.ndarray:
    mine = at.in_runs_of(share := at.n // at.splits)
    return np.arange(at.split * share, at.length) if at.split == at.splits - 1 else mine


def _in_turn(x: Any, kv_heads: int) -> Any:
    """Return parts that are stored as if the splits of a key head followed each other."""
    splits, b, h = x.shape[:3]
    stored = np.moveaxis(x.reshape(splits, b * kv_heads, h // kv_heads, *x.shape[3:]), 0, 1)
    return stored.reshape(x.shape)


_NO_KEY = "a program without a key has l_sum = 0 and m = -inf: its o is 0 and its lse is -inf"
OF_SHARES = Mistake.table(
    ("a split takes its neighbour's keys",
     "the last tile of a split reaches into the next one, so those keys count twice: a key "
     "counts if it lies before the end of its own split, not before the end of the cache.",
     Parts(share=_to_whole_tiles)),
    ("the neighbour's keys count as score 0",
     "the last tile of a split reaches into the next one. Those keys are not loaded, but their "
     "scores of 0 count: the mask of the scores ends with the split's own keys, too.",
     _neighbours_as_zeros),
    ("every split takes all the keys",
     "the loop of each program begins at 0: it begins at split * share.",
     Parts(share=lambda at: np.arange(at.length))),
    ("a split goes on to the end",
     "the loop of a split ends at (split + 1) * share, or with the last key: here it goes on.",
     Parts(share=lambda at: np.arange(at.split * at.share, at.length))),
    ("a split takes one tile only",
     "a split may hold many tiles, or one and a bit: loop over them.",
     Parts(share=lambda at: at.keys[: at.block_k])),
    ("only the first tile of keys counts",
     "the addresses of K and V do not move, neither with the split nor with the loop: keys = "
     "start + tl.arange(0, BLOCK_K).",
     Parts(share=lambda at: np.tile(np.arange(min(at.block_k, at.keys[-1] + 1)), at.tiles)
           if at.tiles else at.keys)),
    ("the last keys belong to no split",
     "share is n / splits rounded down, so that the last keys are left over: round up.",
     Parts(share=lambda at: at.in_runs_of(at.n // at.splits))),
    ("another share of the keys",
     "merged, these parts are right; but split i is to hold the keys from i * share to "
     "(i + 1) * share, share = ceil(n / splits), as in 10.3, whatever block_k is.",
     _in_tiles(lambda at, tiles: tiles % at.splits),
     _in_tiles(lambda at, tiles: tiles // -(-at.n // (at.splits * at.block_k))),
     Parts(share=_rest_to_the_last),
     Parts(share=lambda at: at.in_runs_of(at.n // at.splits + 1))),
    ("a split without keys is not guarded", f"{_NO_KEY}, not NaN.",
     *(Parts(empty=x) for x in ((math.nan, -math.inf), (math.nan, math.nan), (0.0, math.nan)))),
    ("the lse of a split without keys is not -inf", f"{_NO_KEY}.",
     *(Parts(empty=(0.0, x)) for x in NOT_NONE)),
    ("the parts are stored in another order",
     "part number split of all heads comes first: row (split * B * H_kv + kv_head) * group.",
     Parts(placed=_in_turn)),
)  # fmt: skip

EXERCISE = Exercise.of(
    "10.5",
    cases=_cases,
    truth=TRUTH,
    judge=JUDGE,
    kind="kernel",
    races=True,
    mistakes=(*OF_SHARES, *OF_PACKING, *OF_THE_LOOP),
)
