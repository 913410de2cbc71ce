"""Exercises of lesson 07, FlashAttention in Triton: four steps, one look back, an empty cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.attention_judge import attention_judge, attention_truth, output_only
from course_lib.judging.faults import find_fault
from course_lib.judging.judges import array_finding
from course_lib.judging.kernel_judge import flash_traffic, in_turn, stored_whole, was_launched
from course_lib.judging.misconceptions import attention_mistakes
from course_lib.judging.spec import Case, Exercise, Finding, Mistake, Observed
from course_lib.judging.tolerance import as_float64

ONE_KEY = frozenset({"mean(V)", "V"})  # with one key, the mean of V is the truth


def _case(name: str, arrays: Any, dtype: str = "float32", **how: Any) -> Case:
    """Return a case for a launcher: arrays as tensors, tile sizes and causal as keywords."""
    flags = {key: how.pop(key) for key in ("counted", "compiled", "blind_to") if key in how}
    strided = how.pop("strided", False)
    return Case(name, draw.as_tensors(arrays, dtype, strided=strided), how, **flags)


def _far_rows(rng: Generator, n_q: int, n_k: int, d: int) -> draw.Triple:
    """Return inputs whose rows' scores lie near +110 and near -110, in turns."""
    q, k, v = draw.shifted(rng, n_q, n_k, d, 110, heads=(1, 1))
    q[..., ::2, 0] *= -1
    return q, k, v


def _one_tile(rng: Generator) -> list[Case]:
    return [
        _case("32 queries, 64 keys, d = 16", draw.draw(rng, 32, 64, 16, heads=(1, 1))),
        _case(
            "2 x 3 heads, 64 queries, 32 keys, d = 16",
            draw.draw(rng, 64, 32, 16, heads=(2, 3)),
        ),
        _case("16 queries, 16 keys, d = 16: all alike", draw.draw(rng, 16, 16, 16, heads=(1, 2))),
        _case("large scores (q and k times 4)", draw.draw(rng, 16, 64, 32, heads=(1, 1), size=4)),
        _case("all scores near +110", draw.shifted(rng, 32, 16, 64, 110, heads=(1, 1))),
        _case("all scores near -150", draw.shifted(rng, 16, 64, 32, -150, heads=(1, 1))),
        _case("rows near +110 and rows near -110", _far_rows(rng, 16, 64, 32)),
        _case(
            "float16, 64 queries, 64 keys, d = 32",
            draw.draw(rng, 64, 64, 32, heads=(1, 2)),
            "float16",
            compiled=True,
        ),
    ]


def _whole_tiles(rng: Generator) -> list[Case]:
    one, some = (1, 1), (2, 2)
    return [
        _case(
            "64 queries in tiles of 32, 96 keys in tiles of 16, d = 128",
            draw.draw(rng, 64, 96, 128, heads=one),
            block_q=32,
            block_k=16,
        ),
        _case(
            "the scores climb along the row: every tile brings a new maximum",
            draw.sloped(rng, 16, 96, 64, 120, heads=one),
            block_q=16,
            block_k=32,
        ),
        _case(
            "the scores fall along the row: the first tile has the maximum",
            draw.sloped(rng, 16, 96, 64, -12, heads=one),
            block_q=16,
            block_k=32,
        ),
        _case(
            "2 x 2 heads, and tiles as tall as d",
            draw.draw(rng, 64, 64, 32, heads=some),
            block_q=32,
            block_k=32,
        ),
        _case(
            "all scores near -150",
            draw.shifted(rng, 32, 64, 16, -150, heads=one),
            block_q=32,
            block_k=16,
        ),
        _case(
            "large scores (q and k times 4)",
            draw.draw(rng, 64, 128, 32, heads=one, size=4),
            block_q=64,
            block_k=32,
        ),
        _case(
            "float16, 1024 keys of equal weight, values near 100",
            draw.far_values(rng, 64, 1024, 16, heads=one),
            "float16",
            block_q=64,
            block_k=64,
        ),
        _case(
            "float16, 128 queries, 128 keys, d = 64",
            draw.draw(rng, 128, 128, 64, heads=(1, 2)),
            "float16",
            block_q=64,
            block_k=64,
            compiled=True,
        ),
    ]


def _ragged(rng: Generator) -> list[Case]:
    one = (1, 1)
    return [
        _case(
            "257 keys in tiles of 64: the last tile holds one key",
            draw.shifted(rng, 40, 257, 16, -20, heads=one),
            block_q=32,
            block_k=64,
        ),
        _case(
            "50 queries, 70 keys, 2 x 2 heads",
            draw.draw(rng, 50, 70, 64, heads=(2, 2)),
            block_q=32,
            block_k=32,
        ),
        _case(
            "one key",
            draw.draw(rng, 20, 1, 32, heads=one),
            block_q=64,
            block_k=16,
            blind_to=ONE_KEY,
        ),
        _case(
            "climbing scores, 100 keys in tiles of 32, strided memory",
            draw.sloped(rng, 33, 100, 16, 120, heads=(1, 2)),
            block_q=32,
            block_k=32,
            strided=True,
        ),
        *_level_scores(rng),
        _case(
            "float16, 100 queries, 200 keys, d = 64",
            draw.draw(rng, 100, 200, 64, heads=(1, 2)),
            "float16",
            block_q=64,
            block_k=64,
            compiled=True,
        ),
    ]


def _level_scores(rng: Generator) -> list[Case]:
    """Return cases in which a mistake about the tail or about m shows on its own."""
    far = _case(
        "not causal, rows near +110 and rows near -110",
        _far_rows(rng, 32, 64, 16),
        block_q=32,
        block_k=32,
    )
    level = [
        _case(
            f"not causal, {n_k} keys in tiles of 32, all scores near {score}",
            draw.shifted(rng, 32, n_k, 16, score, heads=(1, 1)),
            block_q=32,
            block_k=32,
        )
        for n_k, score in ((33, -20), (64, 110), (64, -150), (33, -150))
    ]
    return [*level, far]


def _final(rng: Generator) -> list[Case]:
    one = (1, 1)
    return [
        _case(
            "causal, 64 queries and keys, tiles 32 and 16",
            draw.draw(rng, 64, 64, 64, heads=one),
            causal=True,
            block_q=32,
            block_k=16,
        ),
        _case(
            "causal, 35 queries, 68 keys: aligned at the end",  # row 31 sees one key of a tile
            draw.draw(rng, 35, 68, 16, heads=(2, 2)),
            causal=True,
            block_q=32,
            block_k=32,
        ),
        *_level_scores(rng),
        _case(
            "causal, 80 queries, 50 keys: the first 30 rows see nothing",
            draw.draw(rng, 80, 50, 32, heads=one),
            causal=True,
            block_q=16,
            block_k=64,
        ),
        _case(
            "causal, climbing scores, tiles as tall as d",
            draw.sloped(rng, 96, 96, 32, 220, heads=one),
            causal=True,
            block_q=64,
            block_k=32,
        ),
        _case(
            "float16, causal, 1030 keys of equal weight, values near 100",
            draw.far_values(rng, 40, 1030, 16, heads=one),
            "float16",
            causal=True,
            block_q=64,
            block_k=128,
        ),
        _case(
            "float16, causal, 100 queries, 150 keys, d = 64, strided",
            draw.draw(rng, 100, 150, 64, heads=(1, 2)),
            "float16",
            causal=True,
            block_q=64,
            block_k=32,
            strided=True,
            compiled=True,
        ),
        *_counted(rng),
    ]


def _counted(rng: Generator) -> list[Case]:
    """Return the two cases whose traffic is judged: N >= 512, d = 16, where N x N would show."""
    return [
        _case(
            "512 queries and keys, d = 16, counted",
            draw.draw(rng, 512, 512, 16, heads=(1, 1)),
            block_q=128,
            block_k=256,
            causal=False,
            counted=True,
        ),
        _case(
            "causal, 520 queries, 648 keys, d = 16, counted",  # the future begins with a tile
            draw.draw(rng, 520, 648, 16, heads=(1, 1)),
            block_q=128,
            block_k=128,
            causal=True,
            counted=True,
        ),
    ]


def _odd_layouts(arrays: Any) -> tuple[Any, Any, Any]:
    """Return tensors that lie in memory in three ways: no stride of one fits another."""
    q, k, v = draw.as_tensors(arrays)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)  # (B, H, N, d), stored as (B, N, H, d)
    k = k.transpose(2, 3).contiguous().transpose(2, 3)  # stored as (B, H, d, N)
    return q, k, v.repeat_interleave(2, -1)[..., ::2]  # every second column of a wider table


def _from_scratch(rng: Generator) -> list[Case]:
    def grouped(arrays: Any, kv_heads: int) -> Any:
        q, k, v = arrays
        return q, k[:, :kv_heads].copy(), v[:, :kv_heads].copy()

    # several heads stand above, and the causal traffic says what the other would
    covered = (
        "causal, 35 queries, 68 keys: aligned at the end",
        "512 queries and keys, d = 16, counted",
    )
    return [
        Case(
            "4 query heads share 2 key heads, each tensor in a layout of its own",
            _odd_layouts(grouped(draw.draw(rng, 40, 70, 16, heads=(2, 4)), 2)),
            {"causal": False, "block_q": 64, "block_k": 32},
        ),
        _case(
            "causal, 3 query heads share one key head",
            grouped(draw.draw(rng, 50, 50, 32, heads=(1, 3)), 1),
            causal=True,
            block_q=32,
            block_k=16,
        ),
        *(case for case in _final(rng) if case.name not in covered),
    ]


def _ask_attention(with_lse: bool) -> Any:
    judge = attention_judge(with_lse=with_lse, in_dtype=True)
    return in_turn(stored_whole(judge), was_launched, flash_traffic)


def _weights_cases(rng: Generator) -> list[Case]:
    import torch

    def case(
        name: str, n_q: int, n_k: int, d: int, i: int, j: int, of: int = 0, **tiles: int
    ) -> Case:
        """Draw rows of ``of`` keys, of which n_k are given: lse stands for the others as well."""
        q, k, v = draw.draw(rng, n_q, of or n_k, d, size=2)
        _, lse = attention_truth(q, k, v)
        arrays = (torch.from_numpy(x) for x in (q, k[:n_k].copy(), lse.astype(np.float32)))
        return Case(name, (*arrays, i, j), tiles)

    return [
        case("tile (1, 2)", 64, 96, 16, 1, 2, block_q=32, block_k=16),
        case("tile (0, 0)", 20, 50, 32, 0, 0, block_q=16, block_k=32),
        case("tile (1, 1), the short corner", 20, 50, 8, 1, 1, block_q=16, block_k=32),
        case("tile (1, 0); lse is of longer rows", 40, 50, 16, 1, 0, block_q=16, block_k=32, of=90),
    ]


def _weights(q: Any, k: Any, lse: Any, i: int, j: int, *, block_q: int, block_k: int) -> np.ndarray:
    scores = _score_tile(q, k, i, j, block_q, block_k)
    return np.exp(scores - as_float64(lse)[i * block_q : (i + 1) * block_q, None])


def _score_tile(q: Any, k: Any, i: int, j: int, block_q: int, block_k: int) -> np.ndarray:
    q, k = as_float64(q), as_float64(k)
    q, k = q[i * block_q : (i + 1) * block_q], k[j * block_k : (j + 1) * block_k]
    return q @ k.T / np.sqrt(q.shape[-1])


def _judge_weights(case: Case, observed: Observed, expected: Any) -> Finding | None:
    import torch

    like = torch.empty(expected.shape)
    fault = find_fault(observed.result, like)
    return fault or array_finding(observed.result, expected, allowed=1e-5)


def _weights_mistake(name: str, says: str, compute: Any) -> Mistake:
    def model(q: Any, k: Any, lse: Any, i: int, j: int, *, block_q: int, block_k: int) -> Any:
        rows = slice(i * block_q, (i + 1) * block_q)
        scores = _score_tile(q, k, i, j, block_q, block_k)
        return compute(scores, as_float64(lse)[rows, None], q.shape[-1])

    return Mistake(name, says, model)


def _own_softmax(s: np.ndarray, _lse: np.ndarray, _d: int) -> np.ndarray:
    p = np.exp(s - s.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _first_rows(lse: Any, i: int, tiles: dict[str, int]) -> np.ndarray:
    return np.roll(as_float64(lse), i * tiles["block_q"])


def _softmax_again(
    q: Any, k: Any, lse: Any, i: int, j: int, *, block_q: int, block_k: int
) -> np.ndarray:
    p = _own_softmax(_score_tile(q, k, i, 0, block_q, len(k)), lse, q.shape[-1])
    return p[:, j * block_k : (j + 1) * block_k]


EXERCISES = (
    Exercise.of(
        "7.1",
        cases=_one_tile,
        truth=attention_truth,
        answer=output_only,
        judge=_ask_attention(with_lse=False),
        kind="kernel",
        mistakes=attention_mistakes(dtype=np.float32),
    ),
    Exercise.of(
        "7.2",
        cases=_whole_tiles,
        truth=attention_truth,
        answer=output_only,
        judge=_ask_attention(with_lse=False),
        kind="kernel",
        mistakes=attention_mistakes(dtype=np.float32),
    ),
    Exercise.of(
        "7.3",
        cases=_ragged,
        truth=attention_truth,
        judge=_ask_attention(with_lse=True),
        kind="kernel",
        mistakes=attention_mistakes(with_lse=True, dtype=np.float32),
    ),
    Exercise.of(
        "7.4",
        cases=_final,
        truth=attention_truth,
        judge=_ask_attention(with_lse=True),
        kind="kernel",
        mistakes=attention_mistakes(with_lse=True, dtype=np.float32),
    ),
    Exercise.of(
        "7.5",
        cases=_weights_cases,
        truth=_weights,
        judge=_judge_weights,
        kind="torch",
        mistakes=(
            _weights_mistake(
                "softmax of the tile alone",
                "Each tile was normalised by its own sum: the sum must be over the whole row, and "
                "lse has it.",
                _own_softmax,
            ),
            _weights_mistake(
                "the scale is missing",
                "The scores are not divided by sqrt(d).",
                lambda s, lse, d: np.exp(s * np.sqrt(d) - lse),
            ),
            _weights_mistake(
                "divided by lse",
                "lse is a logarithm: subtract it before exp, do not divide by it.",
                lambda s, lse, d: np.exp(s) / lse,
            ),
            _weights_mistake("scores, not weights", "exp is missing.", lambda s, lse, d: s - lse),
            _weights_mistake(
                "scaled twice",
                "The scores are divided by d, not by sqrt(d).",
                lambda s, lse, d: np.exp(s / np.sqrt(d) - lse),
            ),
            _weights_mistake(
                "lse is added",
                "The sign of lse is wrong: exp(s) / exp(lse) is exp(s - lse).",
                lambda s, lse, d: np.exp(s + lse),
            ),
            _weights_mistake(
                "lse is not used",
                "exp(s) is not divided by its row's sum: that sum is exp(lse).",
                lambda s, lse, d: np.exp(s),
            ),
            _weights_mistake(
                "2 in place of e",
                "lse is a natural logarithm: use torch.exp.",
                lambda s, lse, d: np.exp2(s - lse),
            ),
            Mistake(
                "lse of the wrong rows",
                "lse is not cut at tile i: these are the first rows' numbers.",
                lambda q, k, lse, i, j, **tiles: _weights(
                    q, k, _first_rows(lse, i, tiles), i, j, **tiles
                ),
            ),
            Mistake(
                "the softmax is computed again",
                "The weights are normalised by the sum over the keys at hand: lse knows the sum "
                "over the whole row, and not all of its keys need be here.",
                _softmax_again,
            ),
        ),
    ),
    Exercise.of(
        "7-star",
        cases=_from_scratch,
        truth=attention_truth,
        judge=_ask_attention(with_lse=True),
        kind="kernel",
        mistakes=attention_mistakes(with_lse=True, dtype=np.float32),
    ),
)
