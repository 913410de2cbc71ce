"""Online softmax with one slip in it: what a known misunderstanding of the recurrence computes.

One loop runs them all, the right one too; a `Slip` is data, and ``SLIPS`` names those that people
make. Lessons, checks and the stepper tell them in words of their own. What is wrong with q, k, v,
masks or strides is not a slip of the recurrence: see ``judging.misconceptions``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from course_lib.attention.online_softmax import finite_max

Array = np.ndarray
LN_2 = math.log(2.0)
ALL_PAST_END = 1 << 30


def _as_it_is(alpha: Array) -> Array:
    return alpha


def _largest(part: Array) -> Array:
    return part.max(axis=1, keepdims=True, initial=-np.inf)


def _smallest_seen(part: Array) -> Array:
    least = part.min(axis=1, keepdims=True, where=part > -np.inf, initial=np.inf)
    return np.where(np.isposinf(least), -least, least)


def _mean_seen(part: Array) -> Array:
    seen = part > -np.inf
    number = seen.sum(axis=1, keepdims=True)
    total = part.sum(axis=1, keepdims=True, where=seen)
    mean = total / np.maximum(number, 1).astype(part.dtype)
    return np.where(number > 0, mean, -np.inf).astype(part.dtype)


def _natural(m: Array, l_sum: Array) -> Array:
    return m + np.log(l_sum)


def _zero_where_empty(m: Array, l_sum: Array) -> Array:
    return finite_max(m) + np.log(np.where(l_sum == 0, 1, l_sum))


def _power(exponent: float) -> Callable[[Array], Array]:
    return lambda alpha: alpha**exponent


@dataclass(frozen=True)
class Slip:
    """The recurrence over tiles of keys with something wrong; every default is right."""

    start: float = -np.inf  # of m
    use_max: bool = True
    top: Callable[[Array], Array] = _largest  # the rows' maxima in a tile
    first_max: bool = False  # m is that of the first tile in which a row sees a key
    own_max: bool = False  # p is measured against the tile's own maximum
    one_max: bool = False  # for all rows
    latest_max: bool = False  # m is that of the last tile
    keep_max: bool = False  # m is never updated
    rescale_l: Callable[[Array], Array] = _as_it_is  # alpha -> what the old l is multiplied by
    rescale_o: Callable[[Array], Array] = _as_it_is
    rescale_new: str = ""  # "later" tiles, or "all", are multiplied by alpha when they are new
    tile_softmax: bool = False  # each tile's weights are divided by the tile's own sum
    divide: str = "once"  # "never", "each" tile, or "each and at the end"
    half: bool = False  # O is rounded to half precision in every tile
    fill: float = -np.inf  # the score of a hidden key
    past_end: int = 0  # how many places past the end have score 0, or `fill` (the others: -inf)
    weightless: bool = False  # ... but no weight: they were masked after the maximum
    guards: tuple[bool, ...] = (True, False)  # with and without care for rows that see no key
    l_guarded: bool | None = None  # care for l = 0 after the loop; None: as in the loop
    lse: Callable[[Array, Array], Array] = _natural


class State(NamedTuple):
    """What stands on the desk after a tile. O is not divided."""

    p: Array  # (n_q, width) weights of the tile
    m: Array  # (n_q, 1)
    alpha: Array  # (n_q, 1)
    l_sum: Array  # (n_q, 1)
    o: Array  # (n_q, d_v)


_RIGHT = Slip()

SLIPS: dict[str, Slip] = {
    "right": _RIGHT,
    "no_rescale_o": Slip(rescale_o=_power(0)),
    "no_rescale_l": Slip(rescale_l=_power(0)),
    "neither": Slip(rescale_o=_power(0), rescale_l=_power(0)),
    "inverse": Slip(rescale_o=_power(-1), rescale_l=_power(-1), guards=(True,)),
    "inverse_at_once": Slip(rescale_o=_power(-1), rescale_l=_power(-1), guards=(False,)),
    "rescale_new": Slip(rescale_new="later", guards=(True,)),
    "rescale_all": Slip(rescale_new="all", guards=(False,)),  # alpha is 0 in the first tile
    "forget_o": Slip(rescale_o=np.zeros_like),
    "forget_l": Slip(rescale_l=np.zeros_like),
    "forget_both": Slip(rescale_o=np.zeros_like, rescale_l=np.zeros_like),
    "own_max": Slip(own_max=True),
    "one_max": Slip(one_max=True),
    "latest_max": Slip(latest_max=True),
    "keep_max": Slip(keep_max=True),
    "first_max": Slip(first_max=True),
    "mean_for_max": Slip(top=_mean_seen),
    "min_for_max": Slip(top=_smallest_seen),
    "first_score_for_max": Slip(top=lambda part: part[:, :1]),
    "start_zero": Slip(start=0.0),
    "no_max": Slip(use_max=False),
    "divide_each": Slip(divide="each"),
    "divide_each_and_last": Slip(divide="each and at the end"),
    "no_divide": Slip(divide="never"),
    "tile_softmax": Slip(tile_softmax=True),
    "half": Slip(half=True),
    "no_guard": Slip(guards=(False,)),
    "no_guard_in_the_loop": Slip(guards=(False,), l_guarded=True),
    "no_guard_after_the_loop": Slip(guards=(True,), l_guarded=False),
    "zeros_past_end": Slip(past_end=ALL_PAST_END),
    "one_zero_past_end": Slip(past_end=1),
    "mask_after_max": Slip(past_end=ALL_PAST_END, weightless=True),
    **{
        f"fill_{where}{name}": Slip(fill=-fill, past_end=past_end, guards=(True,))
        for where, past_end in (("", 0), ("past_end_", ALL_PAST_END))
        for name, fill in (
            ("1e4", 1e4),
            ("1e5", 1e5),
            ("1e6", 1e6),
            ("1e9", 1e9),
            ("1e30", 1e30),
            ("least", float(np.finfo(np.float32).max)),
        )
    },
    "base_2_in_l_and_o": Slip(rescale_o=_power(LN_2), rescale_l=_power(LN_2)),
    "base_e_in_l_and_o": Slip(rescale_o=_power(1 / LN_2), rescale_l=_power(1 / LN_2)),
    "lse_adds_l": Slip(lse=lambda m, l_sum: m + l_sum),
    "lse_is_l": Slip(lse=lambda m, l_sum: l_sum),
    "lse_is_ln_l": Slip(lse=lambda m, l_sum: np.log(l_sum)),
    "lse_is_m": Slip(lse=lambda m, l_sum: m),
    "lse_in_base_2": Slip(lse=lambda m, l_sum: _natural(m, l_sum) / LN_2),
    "lse_with_log2": Slip(lse=lambda m, l_sum: m + np.log2(l_sum)),
    "lse_with_m_in_base_2": Slip(lse=lambda m, l_sum: m / LN_2 + np.log(l_sum)),
    "lse_of_m_and_l": Slip(lse=lambda m, l_sum: np.log(m + l_sum)),
    "lse_is_0_where_empty": Slip(lse=_zero_where_empty),
    "lse_is_0": Slip(lse=lambda m, l_sum: np.zeros_like(m)),
    "lse_with_m_twice": Slip(lse=lambda m, l_sum: 2 * m + np.log(l_sum)),
}
"""Name -> the recurrence: the right one first, then what people make of it."""


def states(
    slip: Slip,
    s: Array,
    v: Array,
    tiles: Iterable[tuple[int, int]],
    *,
    guarded: bool = True,
    ends: Array | None = None,
    n_real: float = math.inf,
    hidden: Array | None = None,
) -> Iterator[State]:
    """Yield the state after each tile of online softmax, with a slip.

    ``s`` (n_q, n_k), scaled, -inf where masked; its dtype is that of the notes: float32 in
    kernels, where exp(-150) is 0. ``v`` (n_k, d_v). ``tiles``: (first, last + 1) of the keys.
    ``guarded``: a row without a key, and a first tile met with m = -inf, give numbers, not NaN.
    Row i meets the tiles that begin before ``ends[i]`` (all by default). Keys from ``n_real`` on
    are places past the end (none by default). ``hidden`` (n_q, n_k) have a score in ``s``, which
    the maximum sees, but no weight.
    """
    m, l_sum, o = _empty_desk(slip, s, v)
    for first, stop in tiles:
        part = s[:, first:stop]
        top = slip.top(part)
        if slip.one_max:
            top = np.full_like(top, top.max())
        m_new = _new_maximum(slip, m, top)
        alpha = np.exp(m - _finite(m_new, guarded)) if slip.use_max else np.ones_like(m)
        untouched = np.isneginf(m) & (l_sum == 0)  # there is nothing to scale yet
        shrink = np.where(untouched, np.ones_like(m), alpha) if guarded else alpha
        p = np.exp(part - _finite(top if slip.own_max else m_new, guarded))
        if slip.weightless:
            p = p * (np.arange(first, stop) < n_real)
        if hidden is not None:
            p = np.where(hidden[:, first:stop], 0, p)
        weights, total = p, p.sum(axis=1, keepdims=True)
        if slip.tile_softmax:
            weights, total = p / np.where(total == 0, 1, total), np.sign(total)
        if slip.rescale_new:
            factor = alpha if slip.rescale_new == "all" else shrink
            weights, total = weights * factor, total * factor
        l_new = l_sum * slip.rescale_l(shrink) + total
        o_new = o * slip.rescale_o(shrink) + weights @ v[first:stop]
        if slip.divide.startswith("each"):
            o_new = o_new / (np.where(l_new == 0, 1, l_new) if guarded else l_new)
        if slip.half:
            o_new = o_new.astype(np.float16).astype(s.dtype)
        met = np.ones_like(m, dtype=bool) if ends is None else (first < ends)[:, None]
        m = m if slip.keep_max else np.where(met, m_new, m)
        l_sum, o = np.where(met, l_new, l_sum), np.where(met, o_new, o)
        yield State(p, m, alpha, l_sum, o)


def _empty_desk(slip: Slip, s: Array, v: Array) -> tuple[Array, Array, Array]:
    m = np.full((len(s), 1), slip.start, s.dtype)
    return m, np.zeros_like(m), np.zeros((len(s), v.shape[1]), s.dtype)


def _new_maximum(slip: Slip, m: Array, top: Array) -> Array:
    if not slip.use_max:
        return np.zeros_like(m)
    if slip.first_max:
        return np.where(np.isneginf(m), top, m)
    return top if slip.latest_max else np.maximum(m, top)


def _finite(m: Array, guarded: bool) -> Array:
    return finite_max(m) if guarded else m


def stream(
    slip: Slip,
    s: Array,
    v: Array,
    tile: int,
    *,
    step: int = 0,
    ends: Array | None = None,
    guarded: bool = True,
    hidden: Array | None = None,
) -> tuple[Array, Array]:
    """Return (o (n_q, d_v), lse (n_q,)) after tiles of ``tile`` keys, the last one filled up.

    The loop moves on by ``step`` keys, by default a tile. The rest as in `states`.
    """
    n_k, beyond = s.shape[1], np.arange(tile)
    score = slip.fill if np.isfinite(slip.fill) else 0.0
    padding = np.where(beyond < slip.past_end, score, -np.inf).astype(s.dtype)
    s = np.hstack([s, np.tile(padding, (len(s), 1))])
    v = np.pad(v, ((0, tile), (0, 0)))
    tiles = [(first, first + tile) for first in range(0, n_k, step or tile)]
    if hidden is not None:
        hidden = np.pad(hidden, ((0, 0), (0, tile)))
    m, l_sum, o = _empty_desk(slip, s, v)
    desk = states(slip, s, v, tiles, guarded=guarded, ends=ends, n_real=n_k, hidden=hidden)
    for last in desk:
        m, l_sum, o = last.m, last.l_sum, last.o
    if guarded if slip.l_guarded is None else slip.l_guarded:
        l_sum = np.where(l_sum == 0, 1, l_sum)
    lse = slip.lse(m, l_sum)[:, 0]
    return (o if slip.divide in ("never", "each") else o / l_sum), lse
