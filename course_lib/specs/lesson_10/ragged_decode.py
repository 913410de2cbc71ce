"""Exercise 10.7: sequences of different lengths in one launch; the padding is not touched."""

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
    decode_case,
    half_launches,
    run,
)
from course_lib.judging.sized_launches import decode_launches
from course_lib.judging.spec import Case, Exercise, Mistake
from course_lib.specs.lesson_10.decode_splits import OF_SHARES


def _padded(case: Case, splits: int, *lengths: int, padding: float | None = math.inf) -> Case:
    """Return a case whose caches are filled to ``lengths``; behind them stands ``padding``.

    None: what a longer sequence has left there, ordinary numbers.
    """
    import torch

    q, k, v = case.args
    if padding is not None:
        for batch, length in enumerate(lengths):
            k[batch, :, length:] = v[batch, :, length:] = padding
    filled = torch.tensor(lengths, dtype=torch.int32)
    return decode_case(Case(**{**vars(case), "args": (q, k, v)}), filled, splits=splits)


def _cases(rng: Generator) -> list[Case]:
    case = partial(draw.launch, rng)
    drawn = [
        _padded(case("lengths 70, 33 and 5 of 70, no padding has been written, 2 splits",
                     3, 70, 16, heads=(3, 2), tiles=(ROWS, 16)), 2, 70, 33, 5),
        _padded(case("lengths 20 and 64 of 64: old numbers stand in the padding",
                     4, 64, 32, heads=(2, 2), tiles=(ROWS, 32)), 2, 20, 64, padding=None),
        _padded(case("lengths 1, 17 and 48 of 100 in 3 splits: old numbers in the padding",
                     1, 100, 16, heads=(3, 1), tiles=(ROWS, 16)), 3, 1, 17, 48, padding=None),
        _padded(case("one sequence has no key yet: lengths 0 and 40 of 40",
                     3, 40, 16, heads=(2, 1), tiles=(ROWS, 16)), 2, 0, 40, padding=None),
        _padded(case("lengths 33 and 70 of 96, all scores near -20, strided memory",
                     4, 96, 16, near=-20, heads=(2, 2), tiles=(ROWS, 32), strided="all"),
                2, 33, 70, padding=None),
        _padded(case("the scores climb along the row, tiles as tall as d",
                     3, 96, 32, rise=120, heads=(2, 1), tiles=(ROWS, 32)), 1, 90, 40),
        _padded(case("float16, lengths 100 and 37 of 120 in 2 splits, d = 64",
                     4, 120, 64, heads=(2, 1), dtype="float16", tiles=(ROWS, 32), compiled=True),
                2, 100, 37),
        *_sized(rng),
        *(_padded(one, 1, one.args[1].shape[2]) for one in half_launches(rng)),
        *(_padded(one, splits, 65, 33)  # see 10.5
          for one, splits in zip(draw.hard_launches(rng, 3, 66, 16, heads=(2, 1),
                                                    tiles=(ROWS, 32)), (2, 2, 2, 1), strict=True)),
        _padded(case("lengths 200, 60 and 120 of 200 in 4 splits, counted",
                     8, 200, 16, heads=(3, 1), tiles=(ROWS, 32), counted=True), 4, 200, 60, 120),
        _padded(draw.roomy_launch(rng, 3, 40, 16, tiles=(ROWS, 16)), 2, 40, 23, padding=None),
        _padded(draw.many_heads_launch(case, 1, tiles=(ROWS, 16)), 1, 16, 9, 16),
        _padded(case("65 keys in 65 splits", 1, 65, 16, tiles=(ROWS, 16)), 65, 65),
    ]  # fmt: skip
    return drawn


def _sized(rng: Generator) -> Iterator[Case]:
    """Yield two sequences each: one fills the cache, the other is of any length beside a tile."""
    for one, has in decode_launches(rng, ROWS, splits=sizes.SPLITS, filled=sizes.LENGTHS):
        n = one.args[1].shape[2]
        splits, filled = has["splits"](n), min(has["filled"](has["block_k"]), n)
        name = f"{one.name}, lengths {filled} and {n}, {splits} splits"
        yield _padded(replace(one, name=name), splits, filled, n)


def _off_by(more: int) -> Any:
    """Return the keys of somebody who takes each sequence for longer than it is."""
    return lambda split, splits, n, length, block_k: run(
        split, splits, n, min(length + more, n), block_k
    )


def _tile_of_padding(split: int, splits: int, n: int, length: int, block_k: int) -> np.ndarray:
    """Return the keys of a run, as far as it fills its last tile with a key of the sequence."""
    mine, whole = (run(split, splits, n, x, block_k) for x in (length, n))
    return whole[: -(-len(mine) // block_k) * block_k]


def _with_length(of: Any) -> Any:
    """Return a model of somebody who takes ``of(lengths)`` for the lengths."""

    def model(q: Any, k: Any, v: Any, lengths: Any, **how: int) -> Any:
        return Parts()(q, k, v, of(lengths), **how)

    return model


def _cut_to_the_longest(q: Any, k: Any, v: Any, lengths: Any, **how: int) -> Any:
    longest = max(int(lengths.max()), 1)
    return Parts()(q, k[:, :, :longest], v[:, :, :longest], lengths, **how)


def _numbered(number: Callable[..., int], q: Any, k: Any, v: Any, lengths: Any, **how: int) -> Any:
    """Return the answer of somebody whose key head takes the length of a sequence so numbered.

    ``number`` is asked for each key head of all, with how many a sequence has and the group's size.
    Raises IndexError where there is no such sequence.
    """
    (batches, kv_heads), group = k.shape[:2], q.shape[1] // k.shape[1]
    each = [
        [number(batch * kv_heads + head, kv_heads, group) for batch in range(batches)]
        for head in range(kv_heads)
    ]
    of = [TRUTH(q, k, v, lengths[mine], **how) for mine in each]
    o, lse = (np.stack(x) for x in zip(*of, strict=True))  # (key heads, splits, B, H, ...)
    heads = np.arange(q.shape[1])
    return tuple(np.moveaxis(x[heads // group, :, :, heads], 0, 2) for x in (o, lse))


def _heads_at_lengths(names: str, q: Any, k: Any, v: Any, lengths: Any, **how: int) -> Any:
    """Return the answer of somebody whose key heads have as many rows as their sequence has keys.

    ``names``: of which of "kv". Head number i of all begins at row i * length then.
    """
    caches = {"k": k.clone(), "v": v.clone()}
    for (batch, head), _ in np.ndenumerate(np.empty(k.shape[:2])):
        length = int(lengths[batch])
        first = (batch * k.shape[1] + head) * length
        for name, x in zip("kv", (k, v), strict=True):
            if name in names:
                rows = x.reshape(-1, x.shape[-1])[first : first + length]
                caches[name][batch, head, :length] = rows
    return TRUTH(q, *caches.values(), lengths, **how)


def _times_infinity(q: Any, k: Any, v: Any, lengths: Any, *, splits: int, block_k: int) -> Any:
    """Return NaN for each part whose last tile reaches into padding that is not finite."""
    o, lse = TRUTH(q, k, v, lengths, splits=splits, block_k=block_k)
    for (split, batch), _ in np.ndenumerate(o[:, :, 0, 0]):
        mine = run(split, splits, k.shape[2], int(lengths[batch]), block_k)
        beyond = np.arange(len(mine), -(-len(mine) // block_k) * block_k) + split * -(
            -k.shape[2] // splits
        )
        if not v[batch, :, beyond[beyond < k.shape[2]]].isfinite().all():
            o[split, batch] = math.nan
    return o, lse


_MISTAKES = Mistake.table(
    ("padding is loaded, and weighs 0",
     "a weight of 0 does not take a number away that is infinite or NaN: 0 times it is NaN. What "
     "lies behind the length is not to be loaded: mask the loads of k and v there.",
     _times_infinity),
    ("the padding counts",
     "a sequence has lengths[batch] keys, and what lies behind them in its cache belongs to "
     "nobody: neither the loop nor the mask may reach past that.",
     Parts(share=_off_by(1 << 30))),
    ("only the last split ends with the sequence",
     "a sequence may end in any split: the end of each share is the smaller of its own end and "
     "lengths[batch], not that of the last split alone.",
     Parts(share=lambda split, splits, n, length, block_k: run(
         split, splits, n, length if split == splits - 1 else n, block_k))),
    ("the padding counts in the last tile",
     "the loop ends with the sequence, but its last tile is masked at the end of the run: the "
     "keys of it that lie behind the length count.",
     Parts(share=_tile_of_padding)),
    ("the sequence is one key too long",
     "lengths[batch] is how many keys there are: the last one is number lengths[batch] - 1.",
     Parts(share=_off_by(1))),
    ("the sequence is one key too short",
     "the newest key counts as well: keys < length, not length - 1.",
     Parts(share=_off_by(-1))),
    ("a sequence without a key gets one",
     "lengths[batch] may be 0: then no key counts, o is 0 and lse is -inf.",
     _with_length(lambda lengths: lengths.clamp(min=1))),
    ("one length for all sequences",
     "each sequence has a length of its own: load lengths + batch, and the batch of a program is "
     "its key head's number // H_kv.",
     _with_length(lambda lengths: lengths[:1].expand_as(lengths)),
     _with_length(lambda lengths: lengths.max().expand_as(lengths)),
     _with_length(lambda lengths: lengths[-1:].expand_as(lengths))),
    ("the length of another sequence",
     "lengths has a number for each sequence: that of a program is its key head's number // H_kv, "
     "not % H_kv and not // group.",
     partial(_numbered, lambda head, kv_heads, group: head % kv_heads),
     partial(_numbered, lambda head, kv_heads, group: head // group),
     _with_length(lambda lengths: lengths.sort().values),
     _with_length(lambda lengths: lengths.sort(descending=True).values),
     _with_length(lambda lengths: lengths.flip(0))),
    ("a length is taken for the cache's stride",
     "how far one key head lies from the next, the cache says: n rows, all of which have room, "
     "however few of them the sequence fills. lengths[batch] is where the loop and the masks end.",
     *(partial(_heads_at_lengths, names) for names in ("kv", "k", "v"))),
    ("the share is that of the longest sequence",
     "a share is ceil(n / splits) of the n places of the cache, however few of them are filled.",
     _cut_to_the_longest),
    ("another share of the keys",
     "merged, these parts are right; but here the cache is split, not the sequence: split i has "
     "the keys from i * share to (i + 1) * share, share = ceil(n / splits), as far as they are "
     "filled.",
     Parts(share=lambda split, splits, n, length, block_k: run(
         split, splits, length, length, block_k))),
)  # fmt: skip

EXERCISE = Exercise.of(
    "10.7",
    cases=_cases,
    truth=TRUTH,
    judge=JUDGE,
    kind="kernel",
    races=True,
    mistakes=(*_MISTAKES, *OF_SHARES, *OF_PACKING, *OF_THE_LOOP),
)
