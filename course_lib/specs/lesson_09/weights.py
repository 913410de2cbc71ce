"""The weights P of a backward pass, made again from lse, and what goes wrong with them.

A way to make them is ``weights(s, lse, where)``: scaled scores (..., n_q, n_k), lse (..., n_q, 1),
and a `Where`. What keys outside (dK, dV) and queries outside (dQ) get wrong of their loops stands
apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from course_lib.attention.slips import LN_2
from course_lib.judging.mask_mistakes import NOT_HIDDEN
from course_lib.judging.misconceptions import SAYS
from course_lib.judging.spec import table
from course_lib.judging.tolerance import as_float64, in_float32
from course_lib.judging.where import Where

Weights = Callable[..., np.ndarray]
Named = tuple[str, str, Weights]  # a mistake's name, what to tell, and the weights it makes


def scaled_scores(q: Any, k: Any) -> np.ndarray:
    """Return q k^T / sqrt(d), (..., n_q, n_k), float64."""
    return np.asarray(as_float64(q) @ as_float64(k).swapaxes(-1, -2) / np.sqrt(q.shape[-1]))


def as_inputs(x: np.ndarray, where: Where) -> np.ndarray:
    """Return ``x`` as it is after ``.to(q.dtype)``, float64."""
    return x.astype(np.float16).astype(np.float64) if where.half else x


def right(s: np.ndarray, lse: np.ndarray, where: Where) -> np.ndarray:
    """Return the weights: exp(s - lse), 0 where a pair is not seen."""
    return _where(where.seen, s, lse)


def _where(mask: Any, s: np.ndarray, lse: np.ndarray) -> np.ndarray:
    return np.where(mask, in_float32(np.exp(s - lse)), 0.0)


def _tile_maximum(s: np.ndarray, _lse: Any, where: Where, hidden: bool = False) -> np.ndarray:
    """Return exp(s - the tile's maximum), of what is ``hidden`` as well, not divided."""
    shown, p = (s if hidden else np.where(where.seen, s, -np.inf)), np.zeros_like(s)
    for start in range(0, s.shape[-1], where.block_k):
        part = shown[..., start : start + where.block_k]
        p[..., start : start + where.block_k] = np.exp(part - part.max(-1, keepdims=True))
    return np.where(where.seen, np.nan_to_num(p), 0.0)


def _only(met: Callable[[Where], Any]) -> Weights:
    """Return the right weights of those pairs that are ``met`` as well, (n_q, n_k); else 0."""
    return lambda s, lse, where: _where(where.seen & met(where), s, lse)


def _tile_softmax(s: np.ndarray, _lse: Any, where: Where) -> np.ndarray:
    """Return weights that each tile of keys normalises by its own sum."""
    s, p = np.where(where.seen, s, -np.inf), np.zeros_like(s)
    for start in range(0, s.shape[-1], where.block_k):
        part = s[..., start : start + where.block_k]
        e = np.exp(part - part.max(-1, keepdims=True))
        p[..., start : start + where.block_k] = np.nan_to_num(e / e.sum(-1, keepdims=True))
    return p


def _from_row(begin: Callable[[Where], Any]) -> Weights:
    """Return weights of a causal loop over queries from row ``begin(where)`` on."""
    return _only(lambda at: not at.causal or at.row >= np.maximum(begin(at), 0))


def _up_to_row(end: Callable[[Where], Any]) -> Weights:
    """Return weights of a causal loop over queries that has no tile from row ``end(where)`` on."""
    return _only(lambda at: not at.causal or at.first_row < end(at))


def _last_key(at: Where) -> Any:
    """Return the last key that there is in each tile."""
    return np.minimum(at.first_key + at.block_k, len(at.key)) - 1


def _from_key(begin: Callable[[Where], Any]) -> Weights:
    """Return weights of a causal loop over keys from key ``begin(where)`` on."""
    return _only(lambda at: not at.causal or at.key >= np.maximum(begin(at), 0))


def _up_to_key(end: Callable[[Where], Any]) -> Weights:
    """Return weights of a causal loop over keys to key ``end(where)``."""
    return _only(lambda at: not at.causal or at.first_key < end(at))


def past_end_as(s: Any, lse: Any, where: Where, *, by: float, weights: Weights = right) -> Any:
    """Return weights, NaN where a short tile's missing keys score ``by`` and exp(by - lse) is inf.

    That is what infinity times their zeros adds to a row's sums. ``weights``: of all other keys;
    by default they come after a mask that hides these places from a causal call.
    """
    is_low = by - lse > np.log(np.finfo(np.float32).max)
    is_short = len(where.key) % where.block_k > 0
    meets = ~np.asarray(where.causal)
    if weights is not right:  # rows whose loop comes to the last tile
        last_row = where.first_row + where.block_q - 1 + where.shift
        meets = meets | (last_row >= where.key_tile(len(where.key)))
    return np.where(is_low & is_short & meets, np.nan, weights(s, lse, where))


def _first_tile_again(rows: bool) -> Weights:
    """Return weights of a loop over queries (``rows``) or keys whose every step reads the first
    tile of them: as many times the first tile's as there are steps."""

    def weights(s: Any, lse: Any, where: Where) -> np.ndarray:
        (n_q, n_k), b_q, b_k = where.seen.shape, where.block_q, where.block_k
        if rows:
            first = where.first_key - where.shift if where.causal else 0
            steps, mine = -(-n_q // b_q) - np.maximum(first, 0) // b_q, where.row < b_q
        else:
            end = where.first_row + b_q + where.shift if where.causal else n_k
            steps, mine = -(-np.clip(end, 0, n_k) // b_k), where.key < b_k
        return np.asarray(_where(where.seen & mine, s, lse) * steps)

    return weights


def _before_the_last_tile(where: Where) -> np.ndarray:
    """Return which keys are met by a loop whose end is rounded down to whole tiles."""
    end = len(where.key)
    if where.causal:
        end = np.minimum(end, where.first_row + where.block_q + where.shift)
    return np.asarray(where.key < where.key_tile(end))


def _other_mask(visible: Callable[..., Any], skip: bool) -> Weights:
    """Return weights of a causal mask ``visible(row, key, shift)``, skipping or not."""

    def weights(s: Any, lse: Any, where: Where) -> np.ndarray:
        mask = visible(where.row, where.key, where.shift) if where.causal else where.seen
        if skip and where.causal:
            first = np.maximum(where.first_key - where.shift, 0)
            mask = mask & (where.row >= where.row_tile(first))
        return _where(mask, s, lse)

    return weights


def _hidden_before_exp(
    s: Any, lse: Any, where: Where, *, by: float, skip: bool, guarded: bool | None = False
) -> np.ndarray:
    """Return weights whose scores are hidden before exp; by -inf: NaN in rows without a key.

    ``guarded``: such a row has no weight; None: its lse counts as 0.
    """
    lse = np.where((guarded is None) & np.isneginf(lse), 0.0, lse)
    p = in_float32(np.exp(np.where(where.seen, s, by) - lse))
    return _of_visited(np.where(bool(guarded) & np.isneginf(lse), 0.0, p), where, skip)


def _of_visited(p: np.ndarray, where: Where, skip: bool | None) -> np.ndarray:
    """Return weights that are 0 in tiles of which nothing is seen, if the loops ``skip`` those.

    None: a loop over queries begins with the very row that sees the tile's first key.
    """
    if skip is None:
        before = where.causal & (where.row + where.shift < where.first_key)
        return np.where(before, 0.0, p)
    last_row = np.minimum(where.first_row + where.block_q, len(where.seen)) - 1
    visited = last_row + where.shift >= where.first_key
    return np.where(visited, p, 0.0) if skip and where.causal else p


def unmasked(s: Any, lse: Any, where: Where, *, skip: bool | None) -> np.ndarray:
    """Return weights of hidden pairs as well."""
    return _of_visited(np.exp(s - lse), where, skip)


_MASKS = table(
    ("the mask is missing", "P is to be 0 where a query does not see a key, and it is not.",
     lambda row, key, shift: np.ones_like(row + key, dtype=bool)),
    ("the causal mask is reversed",
     "a query sees the keys up to its own place, and rows are queries here.",
     lambda row, key, shift: key >= row + shift),
    ("the causal mask is one key too strict", "a query sees its own key: use <=, not <.",
     lambda row, key, shift: key < row + shift),
    ("the causal mask is one key too generous", SAYS["the causal mask is one key too generous"],
     lambda row, key, shift: key <= row + shift + 1),
    ("the causal mask is aligned at the start",
     "with n_q != n_k query i sees key j if j <= i + n_k - n_q.",
     lambda row, key, shift: key <= row),
    ("the offset of the causal mask has the wrong sign",
     SAYS["the offset of the causal mask has the wrong sign"],
     lambda row, key, shift: key <= row - shift),
)  # fmt: skip


def along_keys(x: np.ndarray, where: Where, beyond: float, *, in_tile: bool = False) -> np.ndarray:
    """Return numbers of rows (..., n_q, 1) taken by the numbers of keys: of row j for key j.

    ``in_tile``: a tile's own numbers are laid along its keys, which fits square tiles only. Past
    the last row stands what is ``beyond``.
    """
    if in_tile and where.block_q != where.block_k:
        raise ValueError("the tile's sides differ")
    at = where.first_row + where.key - where.first_key if in_tile else where.key[None, :]
    longer = np.pad(x[..., 0], [(0, 0)] * (x.ndim - 2) + [(0, 1)], constant_values=beyond)
    return np.asarray(longer[..., np.minimum(at, x.shape[-2])])


def at_keys_tile(x: np.ndarray, where: Where, beyond: float) -> np.ndarray:
    """Return numbers of rows (..., n_q, 1) that are read where the tile of keys is: as if the
    tile of queries began at its first key."""
    longer = np.pad(x[..., 0], [(0, 0)] * (x.ndim - 2) + [(0, 1)], constant_values=beyond)
    at = where.first_key + where.row - where.first_row
    return np.asarray(longer[..., np.minimum(at, x.shape[-2])])


def _lse_along_keys(s: Any, lse: Any, where: Where, *, in_tile: bool) -> np.ndarray:
    return right(s, along_keys(lse, where, np.inf, in_tile=in_tile), where)


OF_TILES = table(
    ("lse is taken along the keys",
     "lse is one number a query: it is read at the numbers of rows, and belongs to a row of P.",
     partial(_lse_along_keys, in_tile=False), partial(_lse_along_keys, in_tile=True),
     lambda s, lse, at: right(s, at_keys_tile(lse, at, np.inf), at)),
    ("lse is scaled as well",
     "(Q K^T - lse) * scale scales both: the scale is part of S, and of lse already.",
     lambda s, lse, at: right(s, lse / np.sqrt(at.d), at)),
    ("the softmax is computed anew in each tile",
     "a tile does not know the sum of its rows: use the saved lse, P = exp(S - lse).",
     _tile_softmax),
    ("lse is not subtracted", "exp(S) is not a weight yet: lse must be subtracted first.",
     lambda s, lse, at: np.where(at.seen, np.exp(s), 0.0)),
    ("exp(S) and exp(lse) apart",
     "exp(S) / exp(lse) is exp(S - lse) on paper, but each of the two overflows above 88 and "
     "vanishes below -103: subtract first.",
     lambda s, lse, at: np.where(
         at.seen, np.exp(s.astype(np.float32)) / np.exp(lse.astype(np.float32)), 0.0)),
    ("each tile subtracts its own maximum",
     "exp(S - max) is a weight before it is divided: lse holds maximum and sum, subtract it.",
     _tile_maximum, partial(_tile_maximum, hidden=True)),
    ("lse is divided by", "lse is a logarithm: subtract it inside exp.",
     lambda s, lse, at: np.where(at.seen, np.exp(s) / lse, 0.0)),
    ("base 2 and base e are mixed",
     "lse is a natural logarithm: use exp, or multiply S and lse by log2(e) for exp2.",
     lambda s, lse, at: np.where(at.seen, np.exp2(s - lse), 0.0),
     lambda s, lse, at: right(s, lse * LN_2, at), lambda s, lse, at: right(s, lse / LN_2, at),
     lambda s, lse, at: right(s * LN_2, lse, at), lambda s, lse, at: right(s / LN_2, lse, at)),
    ("the scale is missing", SAYS["the scale is missing"],
     lambda s, lse, at: right(s * np.sqrt(at.d), lse, at),
     lambda s, lse, at: right(s * np.sqrt(at.d) * LN_2, lse, at)),  # with its log2(e)
    ("scaled twice", "s has been multiplied by the scale already.",
     lambda s, lse, at: right(s / np.sqrt(at.d), lse, at)),
    ("the scale is upside down", SAYS["the scale is upside down"],
     lambda s, lse, at: right(s * at.d, lse, at),
     lambda s, lse, at: right(s * at.d * LN_2**2, lse, at)),  # of one with log2(e)
    ("the causal mask is always there", SAYS["the causal mask is always there"],
     lambda s, lse, at: _where(at.key <= at.row + at.shift, s, lse)),
    ("the scores are rounded to float16", SAYS["the scores are rounded to float16"],
     lambda s, lse, at: right(as_inputs(s, at), lse, at)),
    ("scores, not weights", "exp is missing.",
     lambda s, lse, at: np.where(at.seen, s - lse, 0.0)),
)  # fmt: skip
"""What can go wrong whatever the loops are."""

KEYS_OUTSIDE = table(
    ("only the last tile of queries counts", "the tile is overwritten in each step: add to it.",
     _only(lambda at: at.row >= at.first_row[-1])),
    ("the loop begins too late",
     "the first row that sees any key of this tile is the one that sees its *first* key, rounded "
     "down to a tile of queries.",
     _from_row(lambda at: -(-(at.first_key - at.shift) // at.block_q) * at.block_q)),
    ("only the first tile of queries counts",
     "either the loop ends after one tile, or rows do not move with it.",
     _only(lambda at: at.row < at.block_q)),
    ("only the first tile of queries counts",
     "the rows do not move with the loop: rows = start + tl.arange(0, BLOCK_Q).",
     _first_tile_again(rows=True)),
    ("the short last tile of queries is dropped", SAYS["the last tile is dropped"],
     _only(lambda at: at.row < at.row_tile(len(at.row)))),
    ("the loop begins too late",
     "the last key of the tile is seen by fewer rows than the first one: begin where the first "
     "key is seen.",
     _from_row(lambda at: at.row_tile(at.first_key + 1 - at.shift)),
     _from_row(lambda at: at.row_tile(at.first_key + at.block_k - at.shift)),
     _from_row(lambda at: at.row_tile(at.first_key + at.block_k - 1 - at.shift)),
     _from_row(lambda at: at.first_key + at.block_k - 1 - at.shift),
     _from_row(lambda at: at.row_tile(_last_key(at) - at.shift))),
    ("the loop ends at the diagonal",
     "a key is seen by every query from its own place on: the loop over queries begins at the "
     "diagonal and ends at n_q.",
     _up_to_row(lambda at: at.first_key + at.block_k - at.shift),
     _up_to_row(lambda at: at.first_key + at.block_k - at.shift + at.block_q)),
    ("the loop's start is aligned at the start",
     "with n_q != n_k the first row that sees key j is j - (n_k - n_q).",
     _from_row(lambda at: at.row_tile(at.first_key)),
     _from_row(lambda at: at.row_tile(np.minimum(at.first_key, len(at.row))))),
    ("the loop's start is aligned at the start",
     "the first row that sees key j is j - (n_k - n_q): minus, not plus.",
     _from_row(lambda at: at.row_tile(at.first_key + at.shift))),
)  # fmt: skip
"""... of loops over the queries."""

QUERIES_OUTSIDE = table(
    ("only the last tile of keys counts", "the tile is overwritten in each step: add to it.",
     _only(lambda at: at.key >= at.first_key[-1])),
    ("only the first tile of keys counts", SAYS["only the first tile of keys counts"],
     _only(lambda at: at.key < at.block_k),
     _first_tile_again(rows=False)),
    ("the last tile is dropped", SAYS["the last tile is dropped"], _only(_before_the_last_tile)),
    ("the loop over the keys makes no step",
     "no tile of keys is visited, so that dq is 0 everywhere: look at where the loop begins and "
     "ends.",
     _only(lambda at: at.seen & False)),
    ("the causal loop ends too early",
     "the last row of the tile sees the most keys: end after the last one that it sees.",
     _up_to_key(lambda at: at.first_row + at.shift + 1),
     _up_to_key(lambda at: at.key_tile(at.first_row + at.block_q + at.shift))),
    ("the loop over the keys begins at the diagonal",
     "a query sees the keys up to its own place: the loop begins at key 0 and ends at the "
     "diagonal. (It is the loop over queries that begins there.)",
     _from_key(lambda at: at.key_tile(at.first_row + at.shift)),
     _from_key(lambda at: at.first_row + at.shift)),
    ("the loop's end is aligned at the start",
     "with n_q != n_k the last key that row i sees is i + n_k - n_q.",
     _up_to_key(lambda at: at.first_row + at.block_q)),
    ("the loop's end is aligned at the start",
     "the last key that row i sees is i + n_k - n_q: plus, not minus.",
     _up_to_key(lambda at: at.first_row + at.block_q - at.shift)),
)  # fmt: skip
"""... of loops over the keys."""

_FILLS = (-1e3, -1e4)
_NOT_HIDDEN = (
    "a score of 0, or of -1e4, is one like any other, and its weight exp(that - lse): set hidden "
    "weights to 0, after exp."
)
OF_MASKS = table(
    *(
        (name, says, *(_other_mask(visible, skip) for skip in (True, False)))
        for name, says, visible in _MASKS
    ),
    ("rows without a key are not guarded",
     "such a row has lse = -inf. -inf - (-inf) is NaN, and so is exp(s + inf) times a mask's 0: "
     "choose 0 for hidden weights after exp, by where; do not hide scores before it.",
     partial(_hidden_before_exp, by=-np.inf, skip=True),
     partial(_hidden_before_exp, by=-np.inf, skip=False)),
    (NOT_HIDDEN, _NOT_HIDDEN,
     *(partial(_hidden_before_exp, by=by, skip=skip, guarded=guarded)
       for by in (0.0, *_FILLS) for skip in (True, False) for guarded in (False, True, None))),
)  # fmt: skip
"""... of masks; the loop begins where it should, or at 0."""

PAST_END = table(
    ("keys past the end count as score 0",
     "the last tile of keys is short, and where lse is far below 0, exp(0 - lse) is infinite, "
     "or is where it is rounded: times K's zeros that is NaN, and it is added to dQ. Set these "
     "scores to -inf, or p to 0.",
     partial(past_end_as, by=0.0)),
    (NOT_HIDDEN, _NOT_HIDDEN,
     *(partial(past_end_as, by=by) for by in _FILLS),
     *(partial(past_end_as, by=by,
               weights=partial(_hidden_before_exp, by=by, skip=True, guarded=guarded))
       for by in _FILLS for guarded in (False, True, None))),
)  # fmt: skip
"""... of the places behind the last key, which is NaN in dQ."""
