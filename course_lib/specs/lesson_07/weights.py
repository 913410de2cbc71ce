"""Exercise 7.5: the weights of one tile, from the saved lse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from course_lib.attention.slips import LN_2
from course_lib.judging import cases as draw
from course_lib.judging.attention_judge import attention_truth
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.spec import FAR, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64, in_float32, score_rounding

_WHOLE = "tile (0, 0), which holds all keys that are given; lse is of longer rows"


def _weights_cases(rng: Generator) -> list[Case]:
    import torch

    def case(
        name: str, n_q: int, n_k: int, d: int, i: int, j: int, of: int = 0, **tiles: int
    ) -> Case:
        """Draw rows of ``of`` keys, of which n_k are given: lse stands for the others as well."""
        return of_drawn(name, draw.draw(rng, n_q, of or n_k, d, size=2), n_k, i, j, **tiles)

    def of_drawn(
        name: str, qkv: draw.Triple, n_k: int, i: int, j: int, shows: Any = (), **tiles: int
    ) -> Case:
        q, k, v = qkv
        _, lse = attention_truth(q, k, v)
        arrays = (torch.from_numpy(x) for x in (q, k[:n_k].copy(), lse.astype(np.float32)))
        return Case(name, (*arrays, i, j), tiles, shows=frozenset(shows))

    turned = case("tile (0, 1), strided k", 20, 50, 16, 0, 1, block_q=16, block_k=32)
    q, k, *rest = turned.args
    turned = replace(turned, args=(q, k.T.contiguous().T, *rest))
    jump, jumping, shows = draw.hard(rng, 33, 65, 16, by=150)[0]

    return [
        case("tile (1, 2)", 64, 96, 16, 1, 2, block_q=32, block_k=16),
        case("tile (0, 0)", 20, 50, 32, 0, 0, block_q=16, block_k=32),
        case("tile (1, 0), as tall as wide", 64, 64, 16, 1, 0, block_q=32, block_k=32),
        case("tile (1, 1), the short corner", 20, 50, 8, 1, 1, block_q=16, block_k=32),
        case("tile (1, 1), one row and one key", 33, 33, 16, 1, 1, block_q=32, block_k=32),
        turned,
        case("tile (1, 0); lse is of longer rows", 40, 50, 16, 1, 0, block_q=16, block_k=32, of=90),
        of_drawn(jump, jumping, 65, 1, 1, shows, block_q=16, block_k=32),
        case(_WHOLE, 12, 20, 16, 0, 0, block_q=16, block_k=32, of=50),
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
    q, k, *_ = case.args
    allowed = 1e-5 + score_rounding(q, k, 1.0)
    if finding := fault or array_finding(observed.result, expected, allowed=allowed):
        return finding
    # of small weights as well: they are as exact as the exponent
    apart = 1e-5 + 4 * score_rounding(q, k, 1.0) + 2.0**-22 * float(np.abs(case.args[2]).max())
    small = 1e-30 + apart * expected
    return array_finding(observed.result, expected, allowed=small, name="a small weight")


class _Tile(NamedTuple):
    """What a wrong way to make weights may look at."""

    s: np.ndarray  # (rows, keys) of the tile, scaled
    lse: np.ndarray  # (rows, 1)
    d: int
    rows: slice
    keys: slice
    all_s: np.ndarray  # (n_q, n_k)
    all_lse: np.ndarray  # (n_q,)


def _made_by(weights: Callable[[_Tile], np.ndarray]) -> Callable[..., np.ndarray]:
    """Return a model of the exercise from ``weights`` of a `_Tile`."""

    def model(
        q: Any, k: Any, lse: Any, i: int, j: int, *, block_q: int, block_k: int
    ) -> np.ndarray:
        rows, keys = (slice(n * tile, (n + 1) * tile) for n, tile in ((i, block_q), (j, block_k)))
        all_s, all_lse = _score_tile(q, k, 0, 0, len(q), len(k)), as_float64(lse)
        tile = _Tile(
            all_s[rows, keys], all_lse[rows, None], q.shape[-1], rows, keys, all_s, all_lse
        )
        return in_float32(weights(tile))

    return model


def _softmax(s: np.ndarray, axis: int = 1) -> np.ndarray:
    p = np.exp(s - s.max(axis=axis, keepdims=True))
    return np.asarray(p / p.sum(axis=axis, keepdims=True))


def _reshaped(k: np.ndarray, block_k: int) -> np.ndarray:
    tiles = [k[first : first + block_k] for first in range(0, len(k), block_k)]
    return np.concatenate([tile.reshape(tile.shape[::-1]).T for tile in tiles])


def _causal(at: _Tile, *, at_end: bool) -> np.ndarray:
    n_q, n_k = at.all_s.shape
    last = np.arange(n_q)[at.rows, None] + (n_k - n_q if at_end else 0)
    return np.where(np.arange(n_k)[at.keys] <= last, np.exp(at.s - at.lse), 0.0)


def _scaled_by(length: Callable[[_Tile], int], at: _Tile) -> np.ndarray:
    weights: np.ndarray = np.exp(at.s * np.sqrt(at.d / length(at)) - at.lse)
    return weights


_MISTAKES = Mistake.table(
    ("scaled by a length, not by head_dim",
     "The scores are divided by the root of n_q, n_k or a side of the tile: it is the root of d.",
     *(_made_by(partial(_scaled_by, n))
       for n in (lambda at: len(at.all_s), lambda at: at.all_s.shape[1],
                 lambda at: len(at.s), lambda at: at.s.shape[1]))),
    ("lse is scaled as well",
     "(Q K^T - lse) * scale scales both: the scale is part of the scores, and of lse already.",
     _made_by(lambda at: np.exp(at.s - at.lse / np.sqrt(at.d)))),
    ("softmax of the tile alone",
     "Each tile was normalised by its own sum: the sum must be over the whole row, and lse has it.",
     _made_by(lambda at: _softmax(at.s))),
    ("the scale is missing", "The scores are not divided by sqrt(d).",
     _made_by(lambda at: np.exp(at.s * np.sqrt(at.d) - at.lse))),
    ("divided by lse", "lse is a logarithm: subtract it before exp, do not divide by it.",
     _made_by(lambda at: np.exp(at.s) / at.lse)),
    ("exp(s) and exp(lse) apart",
     "exp(s) / exp(lse) is exp(s - lse) on paper, but each of the two overflows above 88 and "
     "vanishes below -103: subtract first.",
     _made_by(lambda at: np.exp(at.s.astype(np.float32)) / np.exp(at.lse.astype(np.float32)))),
    ("scores, not weights", "exp is missing.", _made_by(lambda at: at.s - at.lse)),
    ("scaled twice", "The scores are divided by d, not by sqrt(d).",
     _made_by(lambda at: np.exp(at.s / np.sqrt(at.d) - at.lse))),
    ("lse is added", "The sign of lse is wrong: exp(s) / exp(lse) is exp(s - lse).",
     _made_by(lambda at: np.exp(at.s + at.lse))),
    ("lse is taken along the keys",
     "lse is one number a query: it belongs to a row, lse[rows, None].",
     _made_by(lambda at: np.exp(at.s - at.all_lse[at.keys])),
     _made_by(lambda at: np.exp(at.s - at.all_lse[at.rows.start :][: at.s.shape[1]]))),
    ("lse is not used", "exp(s) is not divided by its row's sum: that sum is exp(lse).",
     _made_by(lambda at: np.exp(at.s))),
    ("the scale is upside down", "The scores are multiplied by sqrt(d), not divided.",
     _made_by(lambda at: np.exp(at.s * at.d - at.lse))),
    ("K is reshaped, not transposed",
     "The tile of K was given the shape (d, block_k), but its numbers kept their order: use .T.",
     lambda q, k, lse, i, j, **tiles: _weights(
         q, _reshaped(as_float64(k), tiles["block_k"]), lse, i, j, **tiles)),
    ("2 in place of e", "lse is a natural logarithm: use torch.exp.",
     _made_by(lambda at: np.exp2(at.s - at.lse))),
    ("base 2 and base e are mixed",
     "with log2(e) in the scale exp2 makes e to the S, but lse is a natural logarithm: it takes "
     "the factor, too, or none does and exp stays.",
     _made_by(lambda at: np.exp(at.s - at.lse * LN_2)),
     _made_by(lambda at: np.exp(at.s - at.lse / LN_2)),
     _made_by(lambda at: np.exp(at.s * LN_2 - at.lse)),
     _made_by(lambda at: np.exp(at.s / LN_2 - at.lse))),
    ("a causal mask that nobody asked for",
     "these weights are those of all keys: nothing is hidden here.",
     *(_made_by(partial(_causal, at_end=at_end)) for at_end in (True, False))),
    ("lse of the wrong rows", "lse is not cut at tile i: these are the first rows' numbers.",
     _made_by(lambda at: np.exp(at.s - at.all_lse[: len(at.s), None]))),
    ("lse of the wrong rows",
     "lse is cut at tile j, where the keys are: it has a number for each query, so cut it at i.",
     _made_by(lambda at: np.exp(at.s - np.take(
         at.all_lse, at.keys.start + np.arange(len(at.s)), mode="wrap")[:, None]))),
    ("the softmax is computed again",
     "The weights are normalised by the sum over the keys at hand: lse knows the sum over the "
     "whole row, and not all of its keys need be here.",
     _made_by(lambda at: _softmax(at.all_s)[at.rows, at.keys])),
    ("softmax over the wrong axis",
     "Each column adds up to 1, and each row should: a query's weights lie along the keys, dim 1.",
     _made_by(lambda at: _softmax(at.s, axis=0)),
     _made_by(lambda at: _softmax(at.all_s, axis=0)[at.rows, at.keys])),
)  # fmt: skip


EXERCISE = Exercise.of(
    "7.5",
    cases=_weights_cases,
    truth=_weights,
    judge=_judge_weights,
    kind="torch",
    spared={FAR: "lse is float32: near -20000 it is off by 1e-3, and so is every right weight"},
    mistakes=_MISTAKES,
)
