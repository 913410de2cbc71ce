"""The known mistakes of a variant: its own, those of a causal mask, those of every online softmax.

The last are lesson 07's slips, streamed over the tiles that the variant visits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from course_lib.attention.slips import ALL_PAST_END, SLIPS, Slip, stream
from course_lib.judging.misconceptions import SAYS, streaming_slips
from course_lib.judging.misread import Misreading
from course_lib.judging.spec import Mistake
from course_lib.judging.tolerance import as_float64
from course_lib.specs.variants.rule import Array, Rule, attend, heads_repeated, visited
from course_lib.specs.variants.variant import Variant


def mistakes(variant: Variant) -> tuple[Mistake, ...]:
    """Return every mistake that a check of ``variant`` knows by name."""
    named = [*variant.slips, *(_causal(variant.rule) if variant.takes_causal else ())]
    dense = [
        Mistake(name, says, model)
        for name, says, rule in named
        for model in (
            partial(attend, rule, dtype=np.float32),
            partial(_in_right_tiles, variant.rule, rule),
            *([partial(_with_empty_rows, rule)] if rule.sink else []),
        )
    ]
    return (*dense, *_masked_too_early(variant), *_streamed_slips(variant.rule))


def _causal(rule: Rule) -> Iterator[tuple[str, str, Rule]]:
    """Yield the mistakes of a causal mask, in lesson 07's words."""
    for name, change in (
        ("the mask is missing", {"causal": None}),
        ("the causal mask is one key too strict", {"causal": lambda at, key: key < at}),
        ("the causal mask is one key too generous", {"causal": lambda at, key: key <= at + 1}),
        ("the causal mask is aligned at the start", {"align": "start"}),
    ):
        yield name, SAYS[name], replace(rule, **change)


def _in_right_tiles(
    right: Rule, slip: Rule, q: Any, k: Any, v: Any, *sinks: Any, causal: bool = False, **tiles: int
) -> tuple[Array, Array]:
    """Return what a slip gives whose loop has the right bounds: other tiles are never seen."""
    n_q, n_k, block_q, block_k = q.shape[-2], k.shape[-2], tiles["block_q"], tiles["block_k"]
    pairs = visited(right, n_q, n_k, block_q, block_k, causal)
    only = pairs.repeat(block_q, 0).repeat(block_k, 1)[:n_q, :n_k]
    return attend(slip, q, k, v, *sinks, causal=causal, dtype=np.float32, only=only)


def _with_empty_rows(
    slip: Rule, q: Any, k: Any, *rest: Any, causal: bool = False, **_tiles: int
) -> tuple[Array, Array]:
    """Return what a slip gives whose lse is m + ln(l): -inf where no key is seen, sinks or not."""
    o, lse = attend(slip, q, k, *rest, causal=causal, dtype=np.float32)
    lse[..., ~slip.seen(q.shape[-2], k.shape[-2], causal).any(axis=1)] = -np.inf
    return o, lse


def _masked_too_early(variant: Variant) -> Iterator[Mistake]:
    """Yield slips whose hidden keys keep a score, in the tiles that a kernel visits.

    There the places past the end of the keys may have that score as well.
    """
    for name, says, rule in variant.slips:
        if rule.when == "after the mask":
            nothing = np.full((1, 1), -np.inf)
            fill = float(rule.change(nothing, (0, 1), causal=False).item())
            for loop in (SLIPS["right"], Slip(fill=fill, past_end=ALL_PAST_END)):
                slip = Misreading(loop=loop)
                yield Mistake(name, says, partial(_streamed, rule, slip, True, True))


def _streamed_slips(rule: Rule) -> Iterator[Mistake]:
    """Yield lesson 07's slips; the plain one of NaN first, since others share its picture."""
    known = sorted(streaming_slips(), key=lambda one: "not guarded" not in one[0])
    for name, says, slips in known:
        for slip in slips:
            for guarded in slip.loop.guards:
                for sinks_first in (True, False) if rule.sink else (True,):
                    yield Mistake(name, says, partial(_streamed, rule, slip, guarded, sinks_first))


def _streamed(
    rule: Rule,
    slip: Misreading,
    guarded: bool,
    sinks_first: bool,
    q: Any,
    k: Any,
    v: Any,
    sinks: Any = None,
    *,
    causal: bool = False,
    block_q: int,
    block_k: int,
) -> tuple[Array, Array]:
    """Return (o, lse) of a kernel that visits the right tiles and makes one slip in its loop.

    Sinks are one more tile, with values of 0, before or after the keys.
    """
    sinks = None if sinks is None else as_float64(sinks)
    loop, like = slip.loop_for(v), q
    q, k, v = heads_repeated(*slip.inputs_read(q, k, v, block_k))
    n_q, n_k = q.shape[-2], k.shape[-2]
    tiles = visited(rule, n_q, n_k, block_q, block_k, causal)
    o, lse = np.empty(q.shape), np.empty(q.shape[:-1])
    for at in np.ndindex(*q.shape[:-2]):
        head = (at[-1], q.shape[-3])
        s = rule.scores(q[at], k[at], head, causal, slip.power) * slip.factor
        for i, row in enumerate(tiles):
            rows = slice(i * block_q, (i + 1) * block_q)
            places = np.flatnonzero(row)
            first, last = (places[0], places[-1] + 1) if places.size else (0, 0)
            keys = slice(first * block_k, min(last * block_k, n_k))
            part, values = s[rows, keys].astype(np.float32), v[at][keys]
            if sinks is not None:
                part, values = _with_sinks(part, values, sinks[at[-1]], block_k, sinks_first)
            with np.errstate(all="ignore"):
                made = stream(loop, part, values, block_k, guarded=guarded)
            o[(*at, rows)], lse[(*at, rows)] = made
    return slip.o_stored(o, like), lse


def _with_sinks(s: Array, v: Array, sinks: Array, block_k: int, first: bool) -> tuple[Array, Array]:
    tile = np.full((len(s), -(-len(sinks) // block_k) * block_k), -np.inf, s.dtype)
    tile[:, : len(sinks)] = sinks
    if not first:  # the keys' last tile is filled up, so that the sinks have a tile of their own
        s = np.pad(s, ((0, 0), (0, -s.shape[1] % block_k)), constant_values=-np.inf)
        v = np.pad(v, ((0, s.shape[1] - len(v)), (0, 0)))
    nothing = np.zeros((tile.shape[1], v.shape[1]))
    if first:
        return np.hstack([tile, s]), np.vstack([nothing, v])
    return np.hstack([s, tile]), np.vstack([v, nothing])
