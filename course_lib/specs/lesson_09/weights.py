"""The weights P of a backward pass, made again from lse, and what goes wrong with them.

A way to make them is ``weights(s, lse, seen, where)``: scaled scores (..., n_q, n_k), lse
(..., n_q, 1), which pairs are seen (n_q, n_k), and ``where``: row and key numbers, head_dim, the
tile sizes, and whether the call is causal. What keys outside (dK, dV) and queries outside (dQ) get
wrong of their loops stands apart.

Longer than 400 lines because it is one list, a name and a sentence for each mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from course_lib.attention.slips import LN_2
from course_lib.judging.misconceptions import SAYS
from course_lib.judging.spec import ways
from course_lib.judging.tolerance import as_float64, in_float32

Weights = Callable[..., np.ndarray]
Named = tuple[str, str, Weights]  # a mistake's name, what to tell, and the weights it makes


def seen_by(n_q: int, n_k: int, *, causal: bool) -> np.ndarray:
    """Return which keys each query sees, (n_q, n_k), aligned at the end."""
    last = np.arange(n_q)[:, None] + (n_k - n_q if causal else n_k + n_q)
    return np.asarray(np.arange(n_k) <= last)


def parts(q: Any, k: Any, *, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return scaled scores (..., n_q, n_k) and which of them are seen (n_q, n_k)."""
    q, k = as_float64(q), as_float64(k)
    seen = seen_by(q.shape[-2], k.shape[-2], causal=causal)
    return q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), seen


def where_of(
    seen: np.ndarray, q: Any, block_q: int, block_k: int, *, causal: bool
) -> dict[str, Any]:
    """Return what a way to make weights may ask for, beside scores and lse."""
    n_q, n_k = seen.shape
    return {
        "row": np.arange(n_q)[:, None], "key": np.arange(n_k), "d": q.shape[-1],
        "block_q": block_q, "block_k": block_k, "causal": causal,
        "seen": seen, "half": str(q.dtype) == "torch.float16",
    }  # fmt: skip


def as_inputs(x: np.ndarray, where: dict[str, Any]) -> np.ndarray:
    """Return ``x`` as it is after ``.to(q.dtype)``, float64."""
    return x.astype(np.float16).astype(np.float64) if where["half"] else x


def right(s: np.ndarray, lse: np.ndarray, seen: np.ndarray, _where: Any = None) -> np.ndarray:
    """Return the weights: exp(s - lse), 0 where a pair is not seen."""
    return np.where(seen, in_float32(np.exp(s - lse)), 0.0)


def _tile_softmax(s: np.ndarray, _lse: Any, seen: np.ndarray, where: dict[str, Any]) -> np.ndarray:
    """Return weights that each tile of keys normalises by its own sum."""
    s, p = np.where(seen, s, -np.inf), np.zeros_like(s)
    for start in range(0, s.shape[-1], where["block_k"]):
        part = s[..., start : start + where["block_k"]]
        e = np.exp(part - part.max(-1, keepdims=True))
        p[..., start : start + where["block_k"]] = np.nan_to_num(e / e.sum(-1, keepdims=True))
    return p


def _from_row(begin: Callable[..., Any]) -> Callable[..., Any]:
    """Return weights of a causal loop that begins at ``begin(first key, shift, b_q, b_k)``."""

    def weights(s: Any, lse: Any, seen: Any, where: dict[str, Any]) -> np.ndarray:
        first_key = where["key"] // where["block_k"] * where["block_k"]
        shift = seen.shape[1] - seen.shape[0]
        start = begin(first_key, shift, where["block_q"], where["block_k"])
        met = where["row"] >= np.maximum(start, 0)
        return right(s, lse, seen & met if where["causal"] else seen)

    return weights


def _up_to_key(end: Callable[..., Any]) -> Weights:
    """Return weights of a causal loop over keys to ``end(first row, shift, b_q, b_k)``."""

    def weights(s: Any, lse: Any, seen: Any, where: dict[str, Any]) -> np.ndarray:
        first_row = where["row"] // where["block_q"] * where["block_q"]
        shift = seen.shape[1] - seen.shape[0]
        stop = end(first_row, shift, where["block_q"], where["block_k"])
        met = where["key"] // where["block_k"] * where["block_k"] < stop
        return right(s, lse, seen & met if where["causal"] else seen)

    return weights


def of_zeros_past_the_end(s: Any, lse: Any, seen: Any, where: dict[str, Any]) -> np.ndarray:
    """Return weights, NaN where a short tile's missing keys score 0 and exp(0 - lse) overflows.

    That is what infinity times their zeros adds to a row's sums.
    """
    is_low = -lse > np.log(np.finfo(np.float32).max)
    is_short = seen.shape[1] % where["block_k"] > 0 and not where["causal"]
    return np.where(is_low & is_short, np.nan, right(s, lse, seen))


def _first_tile_again(rows: bool) -> Weights:
    """Return weights of a loop over queries (``rows``) or keys whose every step reads the first
    tile of them: as many times the first tile's as there are steps."""

    def weights(s: Any, lse: Any, seen: Any, where: dict[str, Any]) -> np.ndarray:
        n_q, n_k = seen.shape
        b_q, b_k = where["block_q"], where["block_k"]
        if rows:
            first = where["key"] // b_k * b_k - (n_k - n_q) if where["causal"] else 0
            steps, mine = -(-n_q // b_q) - np.maximum(first, 0) // b_q, where["row"] < b_q
        else:
            end = (where["row"] // b_q + 1) * b_q + n_k - n_q if where["causal"] else n_k
            steps, mine = -(-np.clip(end, 0, n_k) // b_k), where["key"] < b_k
        return np.asarray(right(s, lse, seen & mine) * steps)

    return weights


def _without_the_last_tile(s: Any, lse: Any, seen: Any, where: dict[str, Any]) -> np.ndarray:
    """Return weights of a loop over keys whose end is rounded down to whole tiles."""
    n_q, n_k = seen.shape
    first_row = where["row"] // where["block_q"] * where["block_q"]
    end = np.minimum(n_k, first_row + where["block_q"] + n_k - n_q) if where["causal"] else n_k
    return right(s, lse, seen & (where["key"] < end // where["block_k"] * where["block_k"]))


def _other_mask(visible: Callable[..., Any]) -> Callable[..., Any]:
    """Return weights of a causal mask ``visible(row, key, shift)``, skipping or not."""

    def weights(s: Any, lse: Any, seen: Any, where: dict[str, Any], *, skip: bool) -> np.ndarray:
        row, key, shift = where["row"], where["key"], seen.shape[1] - seen.shape[0]
        mask = visible(row, key, shift) if where["causal"] else seen
        if skip and where["causal"]:
            first = np.maximum(key // where["block_k"] * where["block_k"] - shift, 0)
            mask = mask & (row >= first // where["block_q"] * where["block_q"])
        return right(s, lse, mask)

    return weights


def _hidden_before_exp(
    s: np.ndarray,
    lse: np.ndarray,
    seen: np.ndarray,
    where: dict[str, Any],
    *,
    by: float,
    skip: bool,
    guarded: bool = False,
) -> np.ndarray:
    """Return weights whose scores are hidden before exp; by -inf: NaN in rows without a key.

    ``guarded``: such a row has no weight.
    """
    p = in_float32(np.exp(np.where(seen, s, by) - lse))
    return _of_visited(np.where(guarded & np.isneginf(lse), 0.0, p), where, skip)


def _of_visited(p: np.ndarray, where: dict[str, Any], skip: bool) -> np.ndarray:
    """Return weights that are 0 in tiles of which nothing is seen, if the loops ``skip`` those."""
    n_q, n_k = where["seen"].shape
    last_row = where["row"] // where["block_q"] * where["block_q"] + where["block_q"] - 1
    first_key = where["key"] // where["block_k"] * where["block_k"]
    visited = np.minimum(last_row, n_q - 1) + n_k - n_q >= first_key
    return np.where(visited, p, 0.0) if skip and where["causal"] else p


def unmasked(
    s: np.ndarray, lse: np.ndarray, _seen: Any, where: dict[str, Any], *, skip: bool
) -> np.ndarray:
    """Return weights of hidden pairs as well."""
    return _of_visited(np.exp(s - lse), where, skip)


_MASKS = (
    (
        "the mask is missing",
        "P is to be 0 where a query does not see a key, and it is not.",
        lambda row, key, shift: np.ones_like(row + key, dtype=bool),
    ),
    (
        "the causal mask is reversed",
        "a query sees the keys up to its own place, and rows are queries here.",
        lambda row, key, shift: key >= row + shift,
    ),
    (
        "the causal mask is one key too strict",
        "a query sees its own key: use <=, not <.",
        lambda row, key, shift: key < row + shift,
    ),
    (
        "the causal mask is one key too generous",
        SAYS["the causal mask is one key too generous"],
        lambda row, key, shift: key <= row + shift + 1,
    ),
    (
        "the causal mask is aligned at the start",
        "with n_q != n_k query i sees key j if j <= i + n_k - n_q.",
        lambda row, key, shift: key <= row,
    ),
    (
        "the offset of the causal mask has the wrong sign",
        SAYS["the offset of the causal mask has the wrong sign"],
        lambda row, key, shift: key <= row - shift,
    ),
)

OF_TILES: tuple[Named, ...] = (
    (
        "the softmax is computed anew in each tile",
        "a tile does not know the sum of its rows: use the saved lse, P = exp(S - lse).",
        _tile_softmax,
    ),
    (
        "lse is not subtracted",
        "exp(S) is not a weight yet: lse must be subtracted first.",
        lambda s, lse, seen, _: np.where(seen, np.exp(s), 0.0),
    ),
    (
        "exp(S) and exp(lse) apart",
        "exp(S) / exp(lse) is exp(S - lse) on paper, but each of the two overflows above 88 and "
        "vanishes below -103: subtract first.",
        lambda s, lse, seen, _: np.where(
            seen, np.exp(s.astype(np.float32)) / np.exp(lse.astype(np.float32)), 0.0
        ),
    ),
    (
        "lse is divided by",
        "lse is a logarithm: subtract it inside exp.",
        lambda s, lse, seen, _: np.where(seen, np.exp(s) / lse, 0.0),
    ),
    (
        "base 2 and base e are mixed",
        "lse is a natural logarithm: use exp, or multiply S and lse by log2(e) for exp2.",
        lambda s, lse, seen, _: np.where(seen, np.exp2(s - lse), 0.0),
    ),
    *ways(
        "the scale is missing",
        SAYS["the scale is missing"],
        lambda s, lse, seen, at: right(s * np.sqrt(at["d"]), lse, seen),
        lambda s, lse, seen, at: right(s * np.sqrt(at["d"]) * LN_2, lse, seen),  # with its log2(e)
    ),
    (
        "scaled twice",
        "s has been multiplied by the scale already.",
        lambda s, lse, seen, at: right(s / np.sqrt(at["d"]), lse, seen),
    ),
    *ways(
        "the scale is upside down",
        SAYS["the scale is upside down"],
        lambda s, lse, seen, at: right(s * at["d"], lse, seen),
        lambda s, lse, seen, at: right(s * at["d"] * LN_2**2, lse, seen),  # of one with log2(e)
    ),
    (
        "the causal mask is always there",
        SAYS["the causal mask is always there"],
        lambda s, lse, seen, at: right(
            s, lse, at["key"] <= at["row"] + seen.shape[1] - seen.shape[0]
        ),
    ),
    (
        "the scores are rounded to float16",
        SAYS["the scores are rounded to float16"],
        lambda s, lse, seen, at: right(as_inputs(s, at), lse, seen),
    ),
    (
        "scores, not weights",
        "exp is missing.",
        lambda s, lse, seen, _: np.where(seen, s - lse, 0.0),
    ),
)
"""What can go wrong whatever the loops are."""

KEYS_OUTSIDE: tuple[Named, ...] = (
    (
        "only the last tile of queries counts",
        "the tile is overwritten in each step: add to it.",
        lambda s, lse, seen, at: right(
            s, lse, seen & (at["row"] >= (len(seen) - 1) // at["block_q"] * at["block_q"])
        ),
    ),
    (
        "the loop begins too late",
        "the first row that sees any key of this tile is the one that sees its *first* key, "
        "rounded down to a tile of queries.",
        _from_row(lambda key, shift, b_q, b_k: -(-(key - shift) // b_q) * b_q),
    ),
    (
        "only the first tile of queries counts",
        "either the loop ends after one tile, or rows do not move with it.",
        lambda s, lse, seen, at: right(s, lse, seen & (at["row"] < at["block_q"])),
    ),
    (
        "only the first tile of queries counts",
        "the rows do not move with the loop: rows = start + tl.arange(0, BLOCK_Q).",
        _first_tile_again(rows=True),
    ),
    (
        "the short last tile of queries is dropped",
        SAYS["the last tile is dropped"],
        lambda s, lse, seen, at: right(
            s, lse, seen & (at["row"] < len(seen) // at["block_q"] * at["block_q"])
        ),
    ),
    *ways(
        "the loop begins too late",
        "the last key of the tile is seen by fewer rows than the first one: begin where the "
        "first key is seen.",
        _from_row(lambda key, shift, b_q, b_k: (key + 1 - shift) // b_q * b_q),
        _from_row(lambda key, shift, b_q, b_k: (key + b_k - shift) // b_q * b_q),
        _from_row(lambda key, shift, b_q, b_k: (key + b_k - 1 - shift) // b_q * b_q),
    ),
    (
        "the loop's start is aligned at the start",
        "with n_q != n_k the first row that sees key j is j - (n_k - n_q).",
        _from_row(lambda key, shift, b_q, b_k: key // b_q * b_q),
    ),
    (
        "the loop's start is aligned at the start",
        "the first row that sees key j is j - (n_k - n_q): minus, not plus.",
        _from_row(lambda key, shift, b_q, b_k: (key + shift) // b_q * b_q),
    ),
)
"""... of loops over the queries."""

QUERIES_OUTSIDE: tuple[Named, ...] = (
    (
        "only the last tile of keys counts",
        "the tile is overwritten in each step: add to it.",
        lambda s, lse, seen, at: right(
            s, lse, seen & (at["key"] >= (seen.shape[1] - 1) // at["block_k"] * at["block_k"])
        ),
    ),
    (
        "only the first tile of keys counts",
        SAYS["only the first tile of keys counts"],
        lambda s, lse, seen, at: right(s, lse, seen & (at["key"] < at["block_k"])),
    ),
    (
        "only the first tile of keys counts",
        SAYS["only the first tile of keys counts"],
        _first_tile_again(rows=False),
    ),
    (
        "the last tile is dropped",
        SAYS["the last tile is dropped"],
        _without_the_last_tile,
    ),
    (
        "the loop over the keys makes no step",
        "no tile of keys is visited, so that dq is 0 everywhere: look at where the loop begins "
        "and ends.",
        lambda s, lse, seen, at: right(s, lse, seen & False),
    ),
    *ways(
        "the causal loop ends too early",
        "the last row of the tile sees the most keys: end after the last one that it sees.",
        _up_to_key(lambda row, shift, b_q, b_k: row + shift + 1),
        _up_to_key(lambda row, shift, b_q, b_k: (row + b_q + shift) // b_k * b_k),
    ),
    (
        "the loop's end is aligned at the start",
        "with n_q != n_k the last key that row i sees is i + n_k - n_q.",
        _up_to_key(lambda row, shift, b_q, b_k: row + b_q),
    ),
    (
        "the loop's end is aligned at the start",
        "the last key that row i sees is i + n_k - n_q: plus, not minus.",
        _up_to_key(lambda row, shift, b_q, b_k: row + b_q - shift),
    ),
)
"""... of loops over the keys."""

OF_MASKS: tuple[Named, ...] = (
    *(
        (name, says, partial(_other_mask(visible), skip=skip))
        for name, says, visible in _MASKS
        for skip in (True, False)
    ),
    *ways(
        "rows without a key are not guarded",
        "such a row has lse = -inf. -inf - (-inf) is NaN, and so is exp(s + inf) times a mask's 0: "
        "choose 0 for hidden weights after exp, by where; do not hide scores before it.",
        partial(_hidden_before_exp, by=-np.inf, skip=True),
        partial(_hidden_before_exp, by=-np.inf, skip=False),
    ),
    *ways(
        "a hidden score is not -inf",
        "a score of 0, or of -1e4, is one like any other, and its weight exp(that - lse): set "
        "hidden weights to 0, after exp.",
        *(
            partial(_hidden_before_exp, by=by, skip=skip, guarded=guarded)
            for by in (0.0, -1e3, -1e4)
            for skip in (True, False)
            for guarded in (False, True)
        ),
    ),
)
"""... of masks; the loop begins where it should, or at 0."""
