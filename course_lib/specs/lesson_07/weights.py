"""Exercise 7.5: the weights of one tile, from the saved lse."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.judging import cases as draw
from course_lib.judging.attention_judge import attention_truth
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.spec import FAR, Case, Exercise, Mistake, Observed
from course_lib.judging.tolerance import as_float64, in_float32, score_rounding


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


def _weights_mistake(name: str, says: str, compute: Any) -> Mistake:
    def model(q: Any, k: Any, lse: Any, i: int, j: int, *, block_q: int, block_k: int) -> Any:
        rows = slice(i * block_q, (i + 1) * block_q)
        scores = _score_tile(q, k, i, j, block_q, block_k)
        return in_float32(compute(scores, as_float64(lse)[rows, None], q.shape[-1]))

    return Mistake(name, says, model)


def _own_softmax(s: np.ndarray, _lse: np.ndarray, _d: int) -> np.ndarray:
    p = np.exp(s - s.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _first_rows(lse: Any, i: int, tiles: dict[str, int]) -> np.ndarray:
    return np.roll(as_float64(lse), i * tiles["block_q"])


def _along_the_keys(
    q: Any, k: Any, lse: Any, i: int, j: int, *, block_q: int, block_k: int, of_keys: bool
) -> np.ndarray:
    """Return the weights, if a column has an lse: the one of its key's number, or of a row's."""
    s = _score_tile(q, k, i, j, block_q, block_k)
    first = j * block_k if of_keys else i * block_q
    return in_float32(np.exp(s - as_float64(lse)[None, first : first + s.shape[1]]))


def _reshaped(k: np.ndarray, block_k: int) -> np.ndarray:
    tiles = [k[first : first + block_k] for first in range(0, len(k), block_k)]
    return np.concatenate([tile.reshape(tile.shape[::-1]).T for tile in tiles])


def _softmax_again(
    q: Any, k: Any, lse: Any, i: int, j: int, *, block_q: int, block_k: int
) -> np.ndarray:
    p = _own_softmax(_score_tile(q, k, i, 0, block_q, len(k)), lse, q.shape[-1])
    return p[:, j * block_k : (j + 1) * block_k]


EXERCISE = Exercise.of(
    "7.5",
    cases=_weights_cases,
    truth=_weights,
    judge=_judge_weights,
    kind="torch",
    spared={FAR: "lse is float32: near -20000 it is off by 1e-3, and so is every right weight"},
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
        _weights_mistake(
            "exp(s) and exp(lse) apart",
            "exp(s) / exp(lse) is exp(s - lse) on paper, but each of the two overflows above 88 "
            "and vanishes below -103: subtract first.",
            lambda s, lse, d: np.exp(s.astype(np.float32)) / np.exp(lse.astype(np.float32)),
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
        *Mistake.ways(
            "lse is taken along the keys",
            "lse is one number a query: it belongs to a row, lse[rows, None].",
            *(partial(_along_the_keys, of_keys=x) for x in (True, False)),
        ),
        _weights_mistake(
            "lse is not used",
            "exp(s) is not divided by its row's sum: that sum is exp(lse).",
            lambda s, lse, d: np.exp(s),
        ),
        _weights_mistake(
            "the scale is upside down",
            "The scores are multiplied by sqrt(d), not divided.",
            lambda s, lse, d: np.exp(s * d - lse),
        ),
        Mistake(
            "K is reshaped, not transposed",
            "The tile of K was given the shape (d, block_k), but its numbers kept their order: "
            "use .T.",
            lambda q, k, lse, i, j, **tiles: _weights(
                q, _reshaped(as_float64(k), tiles["block_k"]), lse, i, j, **tiles
            ),
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
)
