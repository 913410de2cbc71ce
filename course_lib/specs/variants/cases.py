"""The inputs on which a variant is tried: those of 7★, at sizes where its parameter shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.spec import Case
from course_lib.specs.variants.variant import Variant


def cases(variant: Variant, rng: Generator) -> list[Case]:
    """Return the cases of a variant.

    First come large scores and rows that see nothing: there, a mistake shows at once."""
    make, n = _Maker(variant, rng), variant.reach + 40
    one_of_a_tile = 33 + 33 + 64 * -(-(n - 46) // 64)  # row 31 sees only the first key of a tile
    return [
        make("causal, 80 queries, 50 keys: the first 30 rows see nothing",
             80, 50, 32, size=4, heads=(1, 2), tiles=(16, 64), causal=True),
        make(f"{n} queries, {n + 7} keys, 4 query heads share 2 key heads, strided memory",
             n, n + 7, 16, size=2, heads=(1, 4), kv_heads=2, tiles=(64, 64), strided="all"),
        make(f"2 heads, {one_of_a_tile} keys, large scores (q and k times 4)",
             33, one_of_a_tile, 32, size=4, heads=(1, 2), tiles=(16, 64), causal=True),
        make("2 heads, climbing scores, tiles as tall as d",
             40, n, 32, rise=120, heads=(1, 2), tiles=(32, 32)),
        make("all scores near -150",
             32, n, 16, near=-150, heads=(1, 2), tiles=(32, 32), sinks_at=-150),
        *_far_sinks(make, variant),
        make("rows near +110 and rows near -110", 32, n, 16, rows_near=110, tiles=(32, 64)),
        *_hard(make, n),
        make("float16, 1030 keys of equal weight, values near 1500",
             40, 1030, 16, values_near=1500, dtype="float16", tiles=(64, 128)),
        make("float16, causal, 100 queries, 150 keys, d = 64, strided",
             100, 150, 64, heads=(1, 2), dtype="float16", tiles=(64, 32), causal=True,
             strided="all", compiled=True),
        make(draw.ROOMY_NAME, 17, 33, 16, heads=(2, 2), tiles=(16, 32), strided="room"),
        draw.many_heads_launch(make, tiles=(16, 16)),
        draw.many_tiles_launch(make),
        make("causal, 520 queries, 648 keys, d = 16, counted",
             520, 648, 16, tiles=(128, 128), causal=True, counted=True),
        draw.one_key_launch(make),
    ]  # fmt: skip


class _Maker:
    """Makes cases with the arguments that the variant's launcher takes."""

    def __init__(self, variant: Variant, rng: Generator) -> None:
        self._variant, self._rng = variant, rng

    def __call__(self, name: str, *shape: int, sinks_at: float = 0.0, **how: Any) -> Case:
        how = {"causal": False} | how
        if not self._variant.takes_causal:
            name, how["causal"] = name.replace("causal, ", ""), None
        case = draw.launch(self._rng, name, *shape, **how)
        if not self._variant.n_sinks:
            return case
        return replace(case, args=(*case.args, self._sinks(case.args[0].shape[1], sinks_at)))

    def _sinks(self, heads: int, near: float) -> Any:
        import torch

        numbers = near + 2 * self._rng.standard_normal((heads, self._variant.n_sinks))
        return torch.from_numpy(numbers.astype(np.float32))


def _hard(make: _Maker, n: int) -> list[Case]:
    """Return the course's hard cases, one more than whole tiles, at least ``n`` keys."""
    (jump, far), n_k = draw.hard_names(150), -(-n // 16) * 16 + 1
    return [
        make(jump, 33, n_k, 16, jump=150, tiles=(32, 16)),
        make(far, 33, n_k, 16, far=draw.FAR_BELOW, tiles=(32, 16), sinks_at=draw.FAR_BELOW),
    ]


def _far_sinks(make: _Maker, variant: Variant) -> list[Case]:
    """Return a case in which exp(sink - m) overflows unless m knows the sinks."""
    if not variant.n_sinks:
        return []
    name = "scores near -150, sinks near 0"
    return [make(name, 32, 60, 16, near=-150, heads=(1, 2), tiles=(32, 32))]
