"""The inputs on which a variant is tried: those of 7★, at sizes where its parameter shows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.spec import Case
from course_lib.specs.variants.variant import Variant


def cases(variant: Variant, rng: Generator) -> list[Case]:
    """Return the cases of a variant, the last one counted.

    First come large scores and rows that see nothing: there, a mistake shows at once."""
    make, n = _Maker(variant, rng), variant.reach + 40
    return [
        make(
            "causal, 80 queries, 50 keys: the first 30 rows see nothing",
            draw.draw(rng, 80, 50, 32, heads=(1, 2), size=4),
            causal=True,
            block_q=16,
            block_k=64,
        ),
        make(
            f"{n} queries, {n + 7} keys, 4 query heads share 2 key heads, strided memory",
            _grouped(draw.draw(rng, n, n + 7, 16, heads=(1, 4), size=2), 2),
            block_q=64,
            block_k=64,
            strided=True,
        ),
        make(
            f"2 heads, {n + 20} keys, large scores (q and k times 4)",
            draw.draw(rng, 33, n + 20, 32, heads=(1, 2), size=4),
            causal=True,
            block_q=16,
            block_k=64,
        ),
        make(
            "2 heads, climbing scores, tiles as tall as d",
            draw.sloped(rng, 40, n, 32, 120, heads=(1, 2)),
            block_q=32,
            block_k=32,
        ),
        make(
            "all scores near -150",
            draw.shifted(rng, 32, n, 16, -150, heads=(1, 2)),
            sinks_at=-150,
            block_q=32,
            block_k=32,
        ),
        *_far_sinks(make, rng),
        make(
            "rows near +110 and rows near -110",
            _far_rows(rng, 32, n, 16),
            block_q=32,
            block_k=64,
        ),
        make(
            "float16, 1030 keys of equal weight, values near 100",
            draw.far_values(rng, 40, 1030, 16, heads=(1, 1)),
            dtype="float16",
            block_q=64,
            block_k=128,
        ),
        make(
            "float16, causal, 100 queries, 150 keys, d = 64, strided",
            draw.draw(rng, 100, 150, 64, heads=(1, 2)),
            dtype="float16",
            causal=True,
            block_q=64,
            block_k=32,
            strided=True,
            compiled=True,
        ),
        make(
            "causal, 520 queries, 648 keys, d = 16, counted",
            draw.draw(rng, 520, 648, 16, heads=(1, 1)),
            causal=True,
            block_q=128,
            block_k=128,
            counted=True,
        ),
    ]


class _Maker:
    """Makes cases with the arguments that the variant's launcher takes."""

    def __init__(self, variant: Variant, rng: Generator) -> None:
        self._variant, self._rng = variant, rng

    def __call__(
        self,
        name: str,
        arrays: draw.Triple,
        *,
        dtype: str = "float32",
        strided: bool = False,
        causal: bool = False,
        sinks_at: float = 0.0,
        counted: bool = False,
        compiled: bool = False,
        **tiles: int,
    ) -> Case:
        args = draw.as_tensors(arrays, dtype, strided=strided)
        flags: dict[str, Any] = {"causal": causal} if self._variant.takes_causal else {}
        if not self._variant.takes_causal:
            name = name.replace("causal, ", "")
        if self._variant.n_sinks:
            args = (*args, self._sinks(arrays[0].shape[1], sinks_at))
        return Case(name, args, {**flags, **tiles}, counted=counted, compiled=compiled)

    def _sinks(self, heads: int, near: float) -> Any:
        import torch

        numbers = near + 2 * self._rng.standard_normal((heads, self._variant.n_sinks))
        return torch.from_numpy(numbers.astype(np.float32))


def _grouped(arrays: draw.Triple, kv_heads: int) -> draw.Triple:
    q, k, v = arrays
    return q, k[:, :kv_heads].copy(), v[:, :kv_heads].copy()


def _far_rows(rng: Generator, n_q: int, n_k: int, d: int) -> draw.Triple:
    q, k, v = draw.shifted(rng, n_q, n_k, d, 110, heads=(1, 1))
    q[..., ::2, 0] *= -1
    return q, k, v


def _far_sinks(make: _Maker, rng: Generator) -> list[Case]:
    """Return a case in which exp(sink - m) overflows unless m knows the sinks."""
    if not make._variant.n_sinks:
        return []
    arrays = draw.shifted(rng, 32, 60, 16, -150, heads=(1, 2))
    return [make("scores near -150, sinks near 0", arrays, block_q=32, block_k=32)]
