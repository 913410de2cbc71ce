"""Streaming attention with one mistake in it: what a known misunderstanding computes.

Run only after a failure, on the input that failed, to see whose answer the student's looks like.
Each flag is one mistake of the lessons (the numbers are LESSONS' misconceptions).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from course_lib.grading.spec import Mistake
from course_lib.grading.tolerance import as_float64


def stream(
    scores: np.ndarray,
    values: np.ndarray,
    tile: int,
    *,
    rescale_o: float = 1.0,
    rescale_l: float = 1.0,
    own_max: bool = False,
    start: float = -np.inf,
    use_max: bool = True,
    divide_each: bool = False,
    guarded: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Return (o, lse) of online softmax over tiles of keys, with the named mistake.

    ``scores`` (n_q, n_k), ``values`` (n_k, d). ``rescale_*`` is the power of alpha: 1 is right,
    0 forgets the rescale, -1 inverts it. ``own_max``: p uses the tile's own maximum.
    ``guarded``: rows without a key and a first tile met with m = -inf give numbers, not NaN.
    """
    n_q, n_k = scores.shape
    m = np.full((n_q, 1), start)
    l_sum, o = np.zeros((n_q, 1)), np.zeros((n_q, values.shape[1]))
    with np.errstate(all="ignore"):
        for j in range(0, n_k, tile):
            s = scores[:, j : j + tile]
            top = s.max(axis=1, keepdims=True)
            m_new = np.maximum(m, top) if use_max else np.zeros_like(m)
            shift = _finite(top if own_max else m_new, guarded)
            alpha = np.exp(m - _finite(m_new, guarded)) if use_max else np.ones_like(m)
            if guarded:
                alpha = np.where(np.isneginf(m), 1.0, alpha)
            p = np.exp(s - shift)
            l_sum = l_sum * alpha**rescale_l + p.sum(axis=1, keepdims=True)
            o = o * alpha**rescale_o + p @ values[j : j + tile]
            if divide_each:
                o = o / l_sum
            m = m_new
        l_sum = np.where(l_sum == 0, 1.0, l_sum) if guarded else l_sum
        lse = (m + np.log(l_sum))[:, 0]
        return (o if divide_each else o / l_sum), lse


def _finite(m: np.ndarray, guarded: bool) -> np.ndarray:
    return np.where(np.isneginf(m), 0.0, m) if guarded else m


# name, what it is, the flags that make it
STREAM_MISTAKES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "O is not rescaled",
        "the running sum is rescaled by alpha but the running output is not: "
        "both were measured against the old maximum.",
        {"rescale_o": 0},
    ),
    (
        "l is not rescaled",
        "the running output is rescaled by alpha but the running sum is not.",
        {"rescale_l": 0},
    ),
    (
        "nothing is rescaled",
        "neither the sum nor the output is rescaled when a new maximum arrives.",
        {"rescale_o": 0, "rescale_l": 0},
    ),
    (
        "alpha is inverted",
        "alpha is exp(m_new - m_old): the past grows where it should shrink.",
        {"rescale_o": -1, "rescale_l": -1},
    ),
    (
        "each tile uses its own maximum",
        "each tile's exponentials use that tile's own maximum instead of the running one.",
        {"own_max": True},
    ),
    (
        "the maximum starts at 0",
        "the running maximum starts at 0: where all scores are very negative, "
        "every exponential vanishes. Start at -inf.",
        {"start": 0.0},
    ),
    (
        "no maximum is subtracted",
        "no maximum is subtracted before exp: large scores overflow.",
        {"use_max": False},
    ),
    (
        "divided in every tile",
        "the output is divided by the running sum inside the loop, and then again or not undone.",
        {"divide_each": True},
    ),
)


def attention_mistakes(*, tile: int = 64, with_lse: bool = False) -> tuple[Mistake, ...]:
    """Return the mistakes of an attention function ``f(q, k, v, *, causal, block_k, ...)``.

    The models take (q, k, v) of shape (..., n, d) as arrays or tensors. ``with_lse``: the answer
    is (o, lse), else o alone. ``tile`` is used where the call names no block_k.
    """

    mistakes = []
    for name, says, flags in STREAM_MISTAKES:
        for guarded in (True, False):
            compute = partial(_streamed, flags=flags, guarded=guarded)
            mistakes.append(Mistake(name, says, _model(compute, tile, with_lse)))
    for name, says, compute, how in _WHOLE_ROW + (_LSE if with_lse else ()):
        for skipping in (True, False):
            model = _model(compute, tile, with_lse, skipping=skipping, **how)
            mistakes.append(Mistake(name, says, model))
    return tuple(mistakes)


def _streamed(
    s: np.ndarray, v: np.ndarray, tile: int, *, flags: dict[str, Any], guarded: bool
) -> tuple[np.ndarray, np.ndarray]:
    return stream(s, v, tile, **flags, guarded=guarded)


def _softmax(scores: np.ndarray, values: np.ndarray, _tile: int) -> tuple[np.ndarray, np.ndarray]:
    return stream(scores, values, max(1, scores.shape[1]))


def _column_softmax(s: np.ndarray, v: np.ndarray, _tile: int) -> tuple[np.ndarray, np.ndarray]:
    p = np.exp(s - s.max(axis=0, keepdims=True))
    return (p / p.sum(axis=0, keepdims=True)) @ v, np.zeros(len(s))


def _undivided(s: np.ndarray, v: np.ndarray, _tile: int) -> tuple[np.ndarray, np.ndarray]:
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return p @ v, _softmax(s, v, 0)[1]


def _zero_padded(s: np.ndarray, v: np.ndarray, tile: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys past the end enter with score 0 instead of -inf."""
    extra = -s.shape[1] % tile
    s = np.pad(s, ((0, 0), (0, extra)))
    return _softmax(s, np.pad(v, ((0, extra), (0, 0))), tile)


def _tail_dropped(s: np.ndarray, v: np.ndarray, tile: int) -> tuple[np.ndarray, np.ndarray]:
    whole = s.shape[1] // tile * tile
    return _softmax(s[:, :whole], v[:whole], tile)


_WHOLE_ROW: tuple[tuple[str, str, Any, dict[str, Any]], ...] = (
    ("the scale is missing", "the scores are not divided by sqrt(d).", _softmax, {"power": 0}),
    (
        "scaled twice",
        "the scores are divided by d, not by sqrt(d).",
        _softmax,
        {"power": 2},
    ),
    (
        "softmax over the wrong axis",
        "the softmax runs down the columns: each query's weights are a row.",
        _column_softmax,
        {},
    ),
    ("not divided by l", "the weighted sum is not divided by the sum of weights.", _undivided, {}),
    (
        "keys past the end count as score 0",
        "the last tile is short and the missing keys enter with score 0: "
        "set their scores to -inf before the maximum.",
        _zero_padded,
        {},
    ),
    ("the last tile is dropped", "the short last tile is left out: use ceil.", _tail_dropped, {}),
    ("the mask is missing", "causal=True makes no difference.", _softmax, {"causal": None}),
    (
        "the causal mask is one key too strict",
        "a query does not see its own key: use <=, not <.",
        _softmax,
        {"shift": -1},
    ),
    (
        "the causal mask is one key too generous",
        "a query sees one key of the future.",
        _softmax,
        {"shift": 1},
    ),
    (
        "the causal mask is aligned at the start",
        "with n_q != n_k the last query must see the last key: query i sees key j if "
        "j <= i + n_k - n_q.",
        _softmax,
        {"align": "start"},
    ),
)


def _other_lse(change: Any) -> Any:
    def compute(s: np.ndarray, v: np.ndarray, tile: int) -> tuple[np.ndarray, np.ndarray]:
        o, _ = _softmax(s, v, tile)
        m = s.max(axis=-1)
        with np.errstate(all="ignore"):
            return o, change(m, np.exp(s - m[:, None]).sum(axis=-1))

    return compute


_LSE: tuple[tuple[str, str, Any, dict[str, Any]], ...] = (
    ("lse is m + l", "lse is m + ln(l), not m + l.", _other_lse(lambda m, l_sum: m + l_sum), {}),
    (
        "lse is only l",
        "lse is m + ln(l).",
        _other_lse(lambda m, l_sum: l_sum),
        {},
    ),
    ("lse is ln(l)", "lse lacks the maximum m.", _other_lse(lambda m, l_sum: np.log(l_sum)), {}),
    (
        "lse in base 2",
        "lse is in base 2: multiply by ln 2.",
        _other_lse(lambda m, l_sum: (m + np.log(l_sum)) / np.log(2)),
        {},
    ),
    (
        "log2 where ln is meant",
        "log2(l) is added to m: use the natural logarithm.",
        _other_lse(lambda m, l_sum: m + np.log2(l_sum)),
        {},
    ),
)


def _model(
    compute: Any,
    tile: int,
    with_lse: bool,
    *,
    power: float = 1.0,
    causal: bool | None = True,
    shift: int = 0,
    align: str = "end",
    skipping: bool = False,
) -> Any:
    """Return ``f(q, k, v, ...)`` that runs ``compute(scores, values, tile)`` for every head.

    ``skipping``: the loop ends where a right one does, so a mask too generous cannot reach the
    tiles beyond.
    """

    def model(q: Any, k: Any, v: Any, **kwargs: Any) -> Any:
        q, k, v = as_float64(q), as_float64(k), as_float64(v)
        group = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
        if group > 1:
            k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
        n_q, n_k = q.shape[-2], k.shape[-2]
        hidden = np.zeros((n_q, n_k), dtype=bool)
        if kwargs.get("causal") and causal:
            offset = (n_k - n_q if align == "end" else 0) + shift
            hidden = np.arange(n_k) > np.arange(n_q)[:, None] + offset
            if skipping and "block_q" in kwargs:
                hidden |= _beyond_the_loop(n_q, n_k, kwargs["block_q"], kwargs["block_k"])
        o = np.empty((*q.shape[:-1], v.shape[-1]))
        lse = np.empty(q.shape[:-1])
        for head in np.ndindex(*q.shape[:-2]):
            scores = q[head] @ k[head].T / q.shape[-1] ** (power / 2)
            scores[hidden] = -np.inf
            o[head], lse[head] = compute(scores, v[head], kwargs.get("block_k", tile))
        return (o, lse) if with_lse else o

    return model


def _beyond_the_loop(n_q: int, n_k: int, block_q: int, block_k: int) -> np.ndarray:
    """Return which (row, key) pairs lie in tiles that a causal loop does not visit."""
    tile_end = (np.arange(n_q) // block_q + 1) * block_q + n_k - n_q  # (n_q,)
    visited = -(-np.clip(tile_end, 0, n_k) // block_k) * block_k
    return np.arange(n_k) >= visited[:, None]
