"""Exercises 7.1 to 7.4 and 7★: the kernel in four steps, and from an empty cell."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.slips import SLIPS
from course_lib.judging import cases as draw
from course_lib.judging.attention_judge import attention_judge, attention_truth, output_only
from course_lib.judging.kernel_judge import (
    in_one_launch,
    in_turn,
    linear_memory,
    stored_whole,
    was_launched,
    writes_out,
)
from course_lib.judging.least import attention_least, copies_nothing, counted
from course_lib.judging.misconceptions import attention_mistakes
from course_lib.judging.misread import Misreading, Model
from course_lib.judging.sized_launches import tiled_launches
from course_lib.judging.spec import REMAINDER, Case, Exercise, Mistake

ONE_KEY = frozenset({"mean(V)", "V"})  # with one key, the mean of V is the truth

# What is compiled has tiles of 32 at most. It must have half precision, several tiles and, where
# any length is asked for, a short last one on both sides; a compiler takes longer the larger a tile
# is, and refuses the same.


def _one_tile(rng: Generator) -> list[Case]:
    case = partial(draw.launch, rng)
    return [
        case("32 queries, 64 keys, d = 16", 32, 64, 16),
        case("2 x 3 heads, 64 queries, 32 keys, d = 16, strided memory",
             64, 32, 16, heads=(2, 3), strided="q"),
        case("16 queries, 16 keys, d = 16: all alike", 16, 16, 16, heads=(1, 2)),
        case("large scores (q and k times 4)", 16, 64, 32, size=4),
        case("16 queries, 128 keys, d = 128", 16, 128, 128),
        # to subtract 0, or nothing, does no harm there; twice the maximum, or minus that, does
        case("all scores near -60", 16, 64, 16, near=-60),
        case("all scores near +110", 32, 16, 64, near=110),
        case("all scores near -150", 16, 64, 32, near=-150),
        case("rows near +110 and rows near -110", 16, 64, 32, rows_near=110),
        case("float16, 64 keys of equal weight, values near 2000",
             16, 64, 16, values_near=2000, dtype="float16"),
        case("float16, 32 queries, 32 keys, d = 32",
             32, 32, 32, heads=(1, 2), dtype="float16", compiled=True),
        draw.fine_launch(rng, 64),
        *draw.hard_launches(rng, 32, 32, 16, heads=(1, 2)),  # square: any axis fits
        draw.roomy_launch(rng, 16, 32, 16),
        draw.many_heads_launch(case),
    ]  # fmt: skip


def _whole_tiles(rng: Generator) -> list[Case]:
    case = partial(draw.launch, rng)
    return [
        case("64 queries in tiles of 32, 96 keys in tiles of 16, d = 128",
             64, 96, 128, tiles=(32, 16)),
        case("all scores near -60", 16, 64, 16, near=-60, tiles=(16, 32)),
        case("the scores climb along the row: every tile brings a new maximum",
             16, 96, 64, rise=120, tiles=(16, 32)),
        case("the scores fall along the row: the first tile has the maximum",
             16, 96, 64, rise=-12, tiles=(16, 32)),
        case("2 x 2 heads, and tiles as tall as d", 64, 64, 32, heads=(2, 2), tiles=(32, 32)),
        case("all scores near -150", 32, 64, 16, near=-150, tiles=(32, 16)),
        case("rows near +110 and rows near -110", 16, 64, 32, rows_near=110, tiles=(16, 32)),
        case("large scores (q and k times 4)", 64, 128, 32, size=4, tiles=(64, 32)),
        case("float16, 128 queries, 1024 keys of equal weight, values near 1500, counted",
             128, 1024, 16, values_near=1500, dtype="float16", tiles=(128, 64), counted=True),
        case("float16, 64 queries, 64 keys, d = 32",
             64, 64, 32, heads=(1, 2), dtype="float16", tiles=(32, 32), compiled=True),
        *draw.half_launches(rng),
        *draw.hard_launches(rng, 32, 64, 16, heads=(1, 2), tiles=(16, 32)),
        case("2 x 3 heads, 32 queries, 32 keys, strided memory",
             32, 32, 16, heads=(2, 3), tiles=(32, 16), strided="all"),
        draw.roomy_launch(rng, 16, 32, 16, tiles=(16, 16)),
        draw.many_heads_launch(case, tiles=(16, 16)),
        draw.many_tiles_launch(case),
        draw.one_tile_higher(rng),
    ]  # fmt: skip


def _ragged(rng: Generator) -> list[Case]:
    case = partial(draw.launch, rng)
    return [
        case("257 keys in tiles of 64: the last tile holds one key",
             40, 257, 16, near=-20, tiles=(32, 64)),
        case("50 queries, 70 keys, 2 x 2 heads", 50, 70, 64, heads=(2, 2), tiles=(32, 32)),
        case("one key", 20, 1, 32, tiles=(64, 16), blind_to=ONE_KEY),
        case("climbing scores, 100 keys in tiles of 32, strided memory",
             33, 100, 16, rise=120, heads=(1, 2), tiles=(32, 32), strided="all"),
        *_level_scores(rng),
        case("float16, 40 queries, 80 keys, d = 32",
             40, 80, 32, heads=(1, 2), dtype="float16", tiles=(32, 32), compiled=True),
        case("float16, 100 keys of equal weight, values near 2000",
             16, 100, 16, values_near=2000, dtype="float16", tiles=(16, 64)),
        *draw.half_launches(rng),
        *tiled_launches(rng),
        *draw.hard_launches(rng, 33, 65, 16, tiles=(32, 16)),
        case("256 queries and keys in tiles of 128 and 64, counted",
             256, 256, 16, tiles=(128, 64), counted=True),
        draw.roomy_launch(rng, 17, 33, 16, tiles=(16, 32)),
        draw.many_heads_launch(case, tiles=(16, 16)),
        draw.many_tiles_launch(case),
        draw.one_tile_higher(rng),
    ]  # fmt: skip


def _level_scores(rng: Generator) -> list[Case]:
    """Return cases in which a mistake about the tail or about m shows on its own."""
    case = partial(draw.launch, rng)
    name = "not causal, rows near +110 and rows near -110, strided memory"
    far = case(name, 32, 64, 16, rows_near=110, tiles=(32, 32), strided="all")
    name = "not causal, {} keys in tiles of 32, all scores near {}"
    level = [
        case(name.format(n_k, score), 32, n_k, 16, near=score, tiles=(32, 32))
        for n_k, score in ((33, -20), (64, 110), (64, -150), (33, -150))
    ]
    return [*level, far]


def _final(rng: Generator) -> list[Case]:
    case = partial(draw.launch, rng)
    return [
        case("causal, 64 queries and keys, tiles 32 and 16",
             64, 64, 64, tiles=(32, 16), causal=True),
        case("causal, 35 queries, 68 keys: aligned at the end",  # row 31 sees one key of a tile
             35, 68, 16, heads=(2, 2), tiles=(32, 32), causal=True),
        *_level_scores(rng),
        case("causal, 80 queries, 50 keys: the first 30 rows see nothing",
             80, 50, 32, tiles=(16, 64), causal=True),
        *draw.new_queries(rng),
        case("causal, 100 queries, 20 keys: the first 80 rows see nothing",
             100, 20, 16, tiles=(32, 16), causal=True),
        case("causal, climbing scores, tiles as tall as d",
             96, 96, 32, rise=220, tiles=(64, 32), causal=True),
        case("float16, causal, 1030 keys of equal weight, values near 1500",
             40, 1030, 16, values_near=1500, dtype="float16", tiles=(64, 128), causal=True),
        case("float16, causal, 50 queries, 75 keys, d = 32, strided",
             50, 75, 32, heads=(1, 2), dtype="float16", tiles=(32, 16), causal=True,
             strided="all", compiled=True),
        *draw.half_launches(rng, prefix="causal, ", causal=True),
        *tiled_launches(rng, causal=(True, True, False)),
        *_counted(rng),
        *draw.hard_launches(rng, 33, 65, 16, tiles=(16, 32), prefix="not causal, "),
        # of a program's last tile of keys half its rows see none: who begins with it, begins blind
        *draw.hard_launches(rng, 33, 65, 16, tiles=(32, 16), prefix="causal, ", causal=True),
        case("causal, 48 queries, 32 keys: more queries than keys, whole tiles",
             48, 32, 16, heads=(1, 2), tiles=(16, 16), causal=True, strided="q"),
        draw.roomy_launch(rng, 17, 33, 16, tiles=(16, 32), causal=True),
        draw.many_heads_launch(case, tiles=(16, 16), causal=True),
        draw.many_tiles_launch(case),
        draw.one_tile_higher(rng),
        draw.one_key_launch(case),
    ]  # fmt: skip


def _counted(rng: Generator) -> list[Case]:
    """Return the two cases whose traffic is judged: N >= 512, d = 16, where N x N would show."""
    case = partial(draw.launch, rng)
    return [
        case("512 queries and keys, d = 16, counted",
             512, 512, 16, tiles=(128, 256), causal=False, counted=True),
        case("causal, 520 queries, 648 keys, d = 16, counted",  # the future begins with a tile
             520, 648, 16, tiles=(128, 128), causal=True, counted=True),
    ]  # fmt: skip


def _from_scratch(rng: Generator) -> list[Case]:
    case = partial(draw.launch, rng)
    # row 31 sees one key of a tile, with heads of its own, and several heads stand above
    covered = (
        "causal, 35 queries, 68 keys: aligned at the end",
        "512 queries and keys, d = 16, counted",
    )
    return [
        case("4 query heads share 2 key heads, each tensor in a layout of its own",
             40, 70, 16, heads=(2, 4), kv_heads=2, tiles=(64, 32), causal=False, strided="v"),
        case("causal, 24 queries, 12 keys, 20 query heads share 2 key heads",
             24, 12, 16, heads=(1, 20), kv_heads=2, tiles=(32, 16), causal=True),
        case("causal, 3 query heads share one key head",
             35, 68, 32, heads=(1, 3), kv_heads=1, tiles=(32, 32), causal=True),
        case("causal, 9 query heads share 3 key heads",
             32, 48, 16, heads=(1, 9), kv_heads=3, tiles=(16, 16), causal=True),
        case("causal, 64 queries in a tile of 64, 96 keys in tiles of 32",
             64, 96, 16, tiles=(64, 32), causal=True),
        # a float32 copy of a half o shows where that is counted; N x N shows in the larger case
        *(
            replace(known, counted=known.counted or known.compiled)
            for known in sorted(_final(rng), key=lambda case: case.compiled)
            if known.name not in covered
        ),
        case("a tile of each, stored as (B, H, d, N)",
             16, 16, 16, tiles=(16, 16), causal=False, strided="columns"),
        _expanded(case("q of one batch, k and v of one head, expanded: strides of 0",
                       35, 40, 16, heads=(2, 3), tiles=(32, 16), causal=False, counted=True)),
    ]  # fmt: skip


def _expanded(case: Case) -> Case:
    """Return the case whose q is the first batch's, k and v the first head's, under each name."""
    q, *kv = case.args
    return replace(case, args=(q[:1].expand(q.shape), *(x[:, :1].expand(x.shape) for x in kv)))


_ZEROS_PAST_THE_END = Model(Misreading(loop=SLIPS["zeros_past_end"]), dtype=np.float32)
_ONE_TILE_OF_ALL = Mistake(
    "one tile of all keys",
    "BLOCK_K is n_k filled up to a power of two, and the places past the end count as keys of "
    "score 0: a tile has block_k keys, and the loop brings one after the other.",
    lambda q, k, v, *, block_q, **_: _ZEROS_PAST_THE_END(
        q, k, v, block_q=block_q, block_k=1 << (k.shape[-2] - 1).bit_length()),
)  # fmt: skip
_WHOLE = {REMAINDER: "the exercise promises whole tiles"}


def _exercise(
    id: str,
    cases: Any,
    *,
    with_lse: bool,
    from_scratch: bool = False,
    also: tuple[Mistake, ...] = (),
    **more: Any,
) -> Exercise:
    judge = attention_judge(with_lse=with_lse, in_dtype=True)
    least = partial(attention_least, with_lse=with_lse, tiles=not from_scratch)
    return Exercise.of(
        id,
        cases=cases,
        truth=attention_truth,
        answer=(lambda truth: truth) if with_lse else output_only,
        judge=in_turn(
            stored_whole(judge),
            in_one_launch,
            was_launched,
            writes_out("softmax"),
            linear_memory,
            *([copies_nothing] if from_scratch else []),
            counted(least),
        ),
        kind="kernel",
        mistakes=(*also, *attention_mistakes(with_lse=with_lse, dtype=np.float32)),
        **more,
    )


STEPS = (
    _exercise("7.1", _one_tile, with_lse=False, spared=_WHOLE),
    _exercise("7.2", _whole_tiles, with_lse=False, spared=_WHOLE, also=(_ONE_TILE_OF_ALL,)),
    _exercise("7.3", _ragged, with_lse=True),
    _exercise("7.4", _final, with_lse=True),
)
FROM_SCRATCH = _exercise("7-star", _from_scratch, with_lse=True, from_scratch=True)
