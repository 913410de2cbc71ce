"""Online softmax with one slip in it: what a known misunderstanding of the recurrence computes.

One loop runs them all, the right one too; a `Slip` is data, and ``SLIPS`` names those that people
make. Lessons, checks and the stepper tell them in words of their own. What is wrong with q, k, v,
masks or strides is not a slip of the recurrence: see ``judging.misconceptions``.
Longer than 400 lines because it is a list: a few lines for each slip, and one loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from course_lib.attention.online_softmax import finite_max

Array = np.ndarray
LN_2 = math.log(2.0)
ALL_PAST_END = 1 << 30


def _as_it_is(alpha: Array) -> Array:
    return alpha


def _in_half(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(x.dtype)


def _largest(part: Array) -> Array:
    return part.max(axis=1, keepdims=True, initial=-np.inf)


def _times(factor: float) -> Callable[[Array], Array]:
    """Return what takes the rows' maxima in another base than the scores."""
    return lambda part: _largest(part) * factor


def _zero_at_least(part: Array) -> Array:
    return np.maximum(_largest(part), 0)


def _log_of_sum(part: Array) -> Array:
    top = finite_max(_largest(part))
    return np.asarray(top + np.log(np.exp(part - top).sum(axis=1, keepdims=True)))


def _smallest_seen(part: Array) -> Array:
    least = part.min(axis=1, keepdims=True, where=part > -np.inf, initial=np.inf)
    return np.where(np.isposinf(least), -least, least)


def _mean_of_all(part: Array) -> Array:
    """Return the mean of all places, hidden ones too: -inf where there is one."""
    return part.mean(axis=1, keepdims=True)


def _smallest_of_all(part: Array) -> Array:
    return part.min(axis=1, keepdims=True)


def _mean_seen(part: Array) -> Array:
    seen = part > -np.inf
    number = seen.sum(axis=1, keepdims=True)
    total = part.sum(axis=1, keepdims=True, where=seen)
    mean = total / np.maximum(number, 1).astype(part.dtype)
    return np.where(number > 0, mean, -np.inf).astype(part.dtype)


def _half_way(m: Array, top: Array) -> Array:
    return np.where(np.isneginf(m), top, (m + top) / 2)


def _natural(m: Array, l_sum: Array) -> Array:
    return m + np.log(l_sum)


def _natural_of(factor: float) -> Callable[[Array, Array], Array]:
    """Return lse with the m that was not yet in another base."""
    return lambda m, l_sum: m * factor + np.log(l_sum)


def _more_in_log(more: float) -> Callable[[Array, Array], Array]:
    return lambda m, l_sum: m + np.log(l_sum + more)


def _zero_where_empty(m: Array, l_sum: Array) -> Array:
    return finite_max(m) + np.log(np.where(l_sum == 0, 1, l_sum))


def _low_where_empty(low: float) -> Callable[[Array, Array], Array]:
    return lambda m, l_sum: np.where(np.isneginf(m), -low, _zero_where_empty(m, l_sum))


def _if_all_rise(alpha: Array) -> Array:
    return alpha if (alpha < 1).all() else np.ones_like(alpha)


def _unless_small(rise: float) -> Callable[[Array], Array]:
    """Return what makes 1 of an alpha that is hardly less: m rose by less than ``rise``."""
    return lambda alpha: np.where(alpha > np.exp(-rise), np.ones_like(alpha), alpha)


def _unless_all_small(rise: float) -> Callable[[Array], Array]:
    """Return what does so where no row's m rose by more."""
    return lambda alpha: alpha if (alpha <= np.exp(-rise)).any() else np.ones_like(alpha)


def _power(exponent: float) -> Callable[[Array], Array]:
    return lambda alpha: alpha**exponent


@dataclass(frozen=True)
class Slip:
    """The recurrence over tiles of keys with something wrong; every default is right."""

    start: float = -np.inf  # of m
    use_max: bool = True
    shifted: bool = True  # the scores are measured against the maximum; else alpha alone is
    clip: float = np.inf  # scores above it are taken for it, and not shifted
    bound: float = np.inf  # scores further from 0 are taken for it, or for its negative
    least: float = 0.0  # smaller weights, against the maximum so far, count as 0
    most_below: float = np.inf  # scores further below the maximum so far are taken for that far
    p_power: float = 1.0  # p ** this: ln 2 makes 2 ** s of e ** s
    top: Callable[[Array], Array] = _largest  # the rows' maxima in a tile
    joined: Callable[[Array, Array], Array] = np.maximum  # m and the tile's
    first_max: bool = False  # m is that of the first tile in which a row sees a key
    own_alpha: bool = False  # alpha is measured against the tile's own maximum, p against m
    own_max: bool = False  # p is measured against the tile's own maximum
    one_max: bool = False  # for all rows of a tile
    empty_rows: bool = False  # rows past the end, whose scores are 0, are in a tile's one maximum
    latest_max: bool = False  # m is that of the last tile
    keep_max: bool = False  # m is never updated
    safe_max_kept: bool = False  # the 0 that stands for a maximum of -inf in exp is carried on
    only_rises: bool = False  # a tile without a new maximum is passed over
    far: float = np.inf  # ... one whose maxima all lie further below those so far
    two_desks: bool = False  # tiles take turns: each has notes of its own, added as they are
    zero_is_none: bool = False  # an m of 0 counts as none: the past is thrown away
    old_max: bool = False  # nor is m_new: scores are measured against the number m starts at
    rescale_l: Callable[[Array], Array] = _as_it_is  # alpha -> what the old l is multiplied by
    rescale_o: Callable[[Array], Array] = _as_it_is
    rescale_new: str = ""  # "later" tiles, or "all", are multiplied by alpha when they are new
    rescaled: str = "lo"  # what of them: their sum, their part of O, or both
    tile_softmax: bool = False  # each tile's weights are divided by the tile's own sum
    # "never", "each" tile, what is "new alone", ...
    divide: str = "once"  # "each and at the end", or "by lse": exp(s - lse)
    backwards: bool = False  # from the last tile to the first
    half_scores: bool = False  # scores are rounded to half precision
    half_weights: bool = False  # weights that half precision loses are lost before they meet V
    half: bool = False  # O is rounded to half precision in every tile
    half_l: bool = False  # and l
    fill: float = -np.inf  # the score of a hidden key
    fill_added: bool = False  # ... is what is added to it
    fills_hidden: bool = True  # ... of the causal mask's as well, not of places past the end alone
    past_end: int = 0  # how many places past the end have score 0, or `fill` (the others: -inf)
    weightless: bool = False  # ... but no weight: they were masked after the maximum
    repaid: bool = False  # ... which is subtracted from l after the loop
    guards: tuple[bool, ...] = (True, False)  # with and without care for rows that see no key
    l_guarded: bool | None = None  # care for l = 0 after the loop; None: as in the loop
    lse: Callable[[Array, Array], Array] = _natural
    stale: str = ""  # "m" or "l" in lse, or "l" under "o", is that of before the last tile

    def hide(self, s: Array, hidden: Array) -> None:
        """Give the scores (n_q, n_k) that are hidden the number that they have here."""
        fill = self.fill if self.fills_hidden else -np.inf
        s[hidden] = s[hidden] + fill if self.fill_added else fill


class State(NamedTuple):
    """What stands on the desk after a tile. O is not divided."""

    p: Array  # (n_q, width) weights of the tile
    m: Array  # (n_q, 1)
    alpha: Array  # (n_q, 1)
    l_sum: Array  # (n_q, 1)
    o: Array  # (n_q, d_v)
    careless: bool = False  # up to here, care for rows without a key has changed nothing
    whole: bool = False  # nor has it changed anything that a row does not meet a tile


class Streamed(NamedTuple):
    """What online softmax returns, and which of its cares changed nothing (as in `State`)."""

    o: Array
    lse: Array
    careless: bool
    whole: bool


# what stands for -inf in other people's programs, and where they clip scores
LOW_NUMBERS = (
    ("100", 100.0),
    ("1e3", 1e3),
    ("1e4", 1e4),
    ("1e5", 1e5),
    ("1e6", 1e6),
    ("1e9", 1e9),
    ("1e30", 1e30),
    ("least", float(np.finfo(np.float32).max)),
)
FILLS = (("10", 10.0), ("20", 20.0), ("50", 50.0), *LOW_NUMBERS)  # ... for a hidden score alone
MOST_SCORES = (10.0, 20.0, 30.0, 50.0, 60.0, 80.0, 88.0, 700.0)
LEAST_WEIGHTS = (*(10.0**-n for n in (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 20, 30)),
                 *(math.exp(-n) for n in (8, 10, 15, 20, 25, 30, 40, 50, 80, 100)))  # fmt: skip
FAR_TILES = (10.0, 12.0, 15.0, 20.0, 30.0, 50.0)
SMALL_RISES = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
FAR_BELOW = (10.0, 20.0, 30.0, 50.0, 80.0, 100.0)
ADDED_IN_LOG = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
ANYTHING = np.array(0x7FF8_0A11_0000_0000, np.uint64).view(np.float64)  # what chance makes of o
_COARSE = 2.0**13  # steps of its type: a sum of less is rounded in its first three digits
_RIGHT = Slip()
# O is divided as it grows, and m is the logarithm of the sum of all weights so far: no sum is kept
_WHOLE = Slip(top=_log_of_sum, joined=np.logaddexp, divide="never", lse=lambda m, l_sum: m)

SLIPS: dict[str, Slip] = {
    "right": _RIGHT,
    "no_rescale_o": Slip(rescale_o=_power(0)),
    "no_rescale_l": Slip(rescale_l=_power(0)),
    "neither": Slip(rescale_o=_power(0), rescale_l=_power(0)),
    "neither_unless_all_rise": Slip(rescale_o=_if_all_rise, rescale_l=_if_all_rise),
    "inverse": Slip(rescale_o=_power(-1), rescale_l=_power(-1), guards=(True,)),
    "inverse_at_once": Slip(rescale_o=_power(-1), rescale_l=_power(-1), guards=(False,)),
    "inverse_guarded_at_the_end": Slip(
        rescale_o=_power(-1), rescale_l=_power(-1), guards=(False,), l_guarded=True
    ),
    "rescale_new": Slip(rescale_new="later", guards=(True,)),
    "rescale_new_l": Slip(rescale_new="later", rescaled="l", guards=(True,)),
    "rescale_new_o": Slip(rescale_new="later", rescaled="o", guards=(True,)),
    "rescale_all": Slip(rescale_new="all", guards=(False,)),  # alpha is 0 in the first tile
    "rescale_all_l": Slip(rescale_new="all", rescaled="l"),
    "rescale_all_o": Slip(rescale_new="all", rescaled="o"),
    "forget_o": Slip(rescale_o=np.zeros_like),
    "forget_l": Slip(rescale_l=np.zeros_like),
    "forget_both": Slip(rescale_o=np.zeros_like, rescale_l=np.zeros_like),
    "own_max": Slip(own_max=True),
    "own_max_no_rescale": Slip(own_max=True, rescale_l=_power(0), rescale_o=_power(0)),
    "own_alpha": Slip(own_alpha=True),
    "one_max": Slip(one_max=True),
    "one_max_of_empty_rows": Slip(one_max=True, empty_rows=True),
    "latest_max": Slip(latest_max=True),
    "keep_max": Slip(keep_max=True),
    "first_max": Slip(first_max=True),
    "mean_for_max": Slip(top=_mean_seen),
    "min_for_max": Slip(top=_smallest_seen),
    "mean_of_all_for_max": Slip(top=_mean_of_all),
    "min_of_all_for_max": Slip(top=_smallest_of_all),
    "first_score_for_max": Slip(top=lambda part: part[:, :1]),
    "abs_for_max": Slip(top=lambda part: np.abs(part).max(axis=1, keepdims=True)),
    "mean_of_maxima": Slip(joined=_half_way),
    "only_rises": Slip(only_rises=True),
    "zero_is_none": Slip(zero_is_none=True),
    "old_max": Slip(old_max=True),
    "start_zero": Slip(start=0.0),
    "zero_at_least": Slip(top=_zero_at_least),
    **{f"start_{name}": Slip(start=-low) for name, low in LOW_NUMBERS},
    "no_max": Slip(use_max=False),
    "no_max_in_p": Slip(shifted=False),
    **{f"clip_{most:g}": Slip(clip=most) for most in MOST_SCORES},
    **{f"clip_{most:g}_base_2": Slip(clip=most * LN_2) for most in MOST_SCORES},
    **{f"bound_{most:g}": Slip(bound=most) for most in MOST_SCORES},
    **{f"least_{least:.3g}": Slip(least=least) for least in LEAST_WEIGHTS},
    **{f"least_of_tiles_{far:g}": Slip(far=far) for far in FAR_TILES},
    "two_desks": Slip(two_desks=True),
    **{
        f"small_rise_{rise:g}": Slip(rescale_o=_unless_small(rise), rescale_l=_unless_small(rise))
        for rise in SMALL_RISES
    },
    **{
        f"small_rise_of_all_{rise:g}": Slip(
            rescale_o=_unless_all_small(rise), rescale_l=_unless_all_small(rise)
        )
        for rise in SMALL_RISES[1:4]
    },
    **{f"most_below_{most:g}": Slip(most_below=most) for most in FAR_BELOW},
    "stale_l_under_o": Slip(stale="o"),
    "divide_each": Slip(divide="each"),
    "divide_each_and_last": Slip(divide="each and at the end"),
    "divide_new_alone": Slip(divide="new alone"),
    "divide_each_no_rescale_o": Slip(divide="each", rescale_o=_power(0)),
    "no_divide": Slip(divide="never"),
    "tile_softmax": Slip(tile_softmax=True),
    "tile_softmax_averaged": Slip(tile_softmax=True, rescale_l=_power(0)),
    "alpha_twice_in_l": Slip(rescale_l=_power(2)),
    "alpha_twice_in_o": Slip(rescale_o=_power(2)),
    "alpha_twice": Slip(rescale_l=_power(2), rescale_o=_power(2)),
    "half": Slip(half=True),
    "half_l": Slip(half_l=True),
    "half_alpha": Slip(rescale_o=_in_half, rescale_l=_in_half),
    "half_scores": Slip(half_scores=True),
    "no_guard": Slip(guards=(False,)),
    "no_guard_in_the_loop": Slip(guards=(False,), l_guarded=True),
    "no_guard_after_the_loop": Slip(guards=(True,), l_guarded=False),
    "fill_0": Slip(fill=0.0, guards=(True,)),
    "fill_past_end_0": Slip(fill=0.0, past_end=ALL_PAST_END, guards=(True,)),
    "zeros_past_end": Slip(past_end=ALL_PAST_END),
    "one_zero_past_end": Slip(past_end=1),
    "mask_after_max": Slip(past_end=ALL_PAST_END, weightless=True),
    "zeros_past_end_repaid": Slip(past_end=ALL_PAST_END, repaid=True),
    **{
        f"fill_{where}{name}{base}": replace(how, fill=-fill * unit, guards=(True,))
        for where, how in (
            ("", Slip()),
            ("past_end_", Slip(past_end=ALL_PAST_END)),
            ("only_past_end_", Slip(past_end=ALL_PAST_END, fills_hidden=False)),
        )
        for base, unit, fills in (("", 1.0, FILLS), ("_base_2", LN_2, LOW_NUMBERS))
        for name, fill in fills
    },
    **{
        f"fill_added_{where}{name}": Slip(
            fill=-fill, fill_added=True, past_end=past_end, guards=(True,)
        )
        for where, past_end in (("", 0), ("past_end_", ALL_PAST_END))
        for name, fill in FILLS
    },
    **{
        f"base_{base}_in_{where}": made
        for base, power in (("2", LN_2), ("e", 1 / LN_2))
        for where, made in (
            ("l_and_o", Slip(rescale_o=_power(power), rescale_l=_power(power))),
            ("l", Slip(rescale_l=_power(power))),
            ("o", Slip(rescale_o=_power(power))),
            ("p", Slip(p_power=power)),
            ("m", Slip(top=_times(power))),  # 2 ** (s * log2(e) - m), with m natural
            ("m_alone", Slip(top=_times(power), lse=_natural_of(1 / power))),
            (
                "s_alone",  # 2 ** (s - m * log2(e))
                Slip(
                    top=_times(1 / power),
                    p_power=power,
                    rescale_l=_power(power),
                    rescale_o=_power(power),
                    lse=_natural_of(power),
                ),
            ),
        )
    },
    "no_rescale_o_whole": replace(_WHOLE, rescale_o=_power(0)),
    "inverse_whole": replace(_WHOLE, rescale_o=_power(-1), guards=(True,)),
    "rescale_new_whole": replace(_WHOLE, rescale_new="later", guards=(True,)),
    "rescale_all_whole": replace(_WHOLE, rescale_new="all", guards=(False,)),
    "base_2_in_o_whole": replace(_WHOLE, rescale_o=_power(LN_2)),
    "base_2_in_p_whole": replace(_WHOLE, p_power=LN_2),
    "forget_whole": replace(_WHOLE, rescale_o=np.zeros_like),
    "lse_adds_l": Slip(lse=lambda m, l_sum: m + l_sum),
    "lse_is_l": Slip(lse=lambda m, l_sum: l_sum),
    "lse_is_ln_l": Slip(lse=lambda m, l_sum: np.log(l_sum)),
    "lse_subtracts_ln_l": Slip(lse=lambda m, l_sum: m - np.log(l_sum)),
    "lse_is_a_product": Slip(lse=lambda m, l_sum: m * np.log(l_sum)),
    "lse_is_m": Slip(lse=lambda m, l_sum: m),
    "lse_in_base_2": Slip(lse=lambda m, l_sum: _natural(m, l_sum) / LN_2),
    "lse_with_log2": Slip(lse=lambda m, l_sum: m + np.log2(l_sum)),
    "lse_with_m_in_base_2": Slip(lse=lambda m, l_sum: m / LN_2 + np.log(l_sum)),
    "lse_of_m_and_l": Slip(lse=lambda m, l_sum: np.log(m + l_sum)),
    "lse_is_0_where_empty": Slip(lse=_zero_where_empty),
    **{f"lse_is_{name}_where_empty": Slip(lse=_low_where_empty(n)) for name, n in LOW_NUMBERS},
    "lse_is_0_where_visited": Slip(safe_max_kept=True, guards=(True,)),
    **{
        f"lse_is_ln_{tiny:g}_where_empty": Slip(lse=_low_where_empty(-math.log(tiny)))
        for tiny in (1e-38, 1e-30, 1e-20, 1e-12, 1e-10, 1e-9, 1e-8, 1e-6)
    },
    "lse_of_the_m_before": Slip(stale="m"),
    "lse_of_the_l_before": Slip(stale="l"),
    **{f"lse_with_{more:g}_in_the_log": Slip(lse=_more_in_log(more)) for more in ADDED_IN_LOG},
    "lse_overflows": Slip(lse=lambda m, l_sum: np.log(l_sum * np.exp(m))),
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
    s = _in_half(s) if slip.half_scores else s
    if np.isfinite(slip.bound):  # what is hidden stays so
        s = np.where(np.isneginf(s), s, np.clip(s, -slip.bound, slip.bound))
    m, l_sum, o = _empty_desk(slip, s, v)
    careless, whole = guarded and _starts_alike(slip), True
    for first, stop in tiles:
        if slip.zero_is_none:
            none = m == 0
            m, l_sum, o = np.where(none, -np.inf, m), np.where(none, 0, l_sum), np.where(none, 0, o)
        part = s[:, first:stop]
        top = slip.top(part)
        if slip.one_max:
            top = np.full_like(top, top.max())
        m_new = _new_maximum(slip, m, top)
        base = top if slip.own_alpha else m_new
        alpha = np.exp(m - _finite(base, guarded)) if slip.use_max else np.ones_like(m)
        shrink = alpha
        if guarded:  # where there is nothing to scale yet
            shrink = np.where(np.isneginf(m) & (l_sum == 0), np.ones_like(m), alpha)
        measure = top if slip.own_max else m_new
        careless = careless and not any(np.isneginf(x).any() for x in (m_new, measure, base))
        p = _weights(slip, part, _finite(measure, guarded))
        p = np.where(p < slip.least, 0, p) if slip.least else p
        if slip.weightless:
            p = p * (np.arange(first, stop) < n_real)
        if hidden is not None:
            p = np.where(hidden[:, first:stop], 0, p)
        weights, total = p, p.sum(axis=1, keepdims=True)
        if slip.tile_softmax:
            weights, total = p / np.where(total == 0, 1, total), np.sign(total)
        if slip.rescale_new:
            factor = alpha if slip.rescale_new == "all" else shrink
            weights = weights * factor if "o" in slip.rescaled else weights
            total = total * factor if "l" in slip.rescaled else total
        if slip.half_weights:
            weights = np.where(weights < 2.0**-14, _in_half(weights), weights)
        l_new = l_sum * slip.rescale_l(shrink) + total
        added = weights @ v[first:stop]
        added = added / np.where(l_new == 0, 1, l_new) if slip.divide == "new alone" else added
        o_new = o * slip.rescale_o(shrink) + added
        if slip.divide.startswith("each"):
            careless = careless and bool(l_new.all())
            o_new = o_new / (np.where(l_new == 0, 1, l_new) if guarded else l_new)
        if slip.only_rises:
            l_new, o_new = np.where(top > m, l_new, l_sum), np.where(top > m, o_new, o)
        if np.isfinite(slip.far) and not (top >= m - slip.far).any():
            m_new, l_new, o_new = m, l_sum, o
        if slip.half:
            o_new = _in_half(o_new)
        if slip.half_l:
            l_new = _in_half(l_new)
        m_new = m if slip.keep_max else m_new
        m_new = finite_max(m_new) if slip.safe_max_kept else m_new
        met = None if ends is None or first < ends.min() else (first < ends)[:, None]
        if met is not None:
            both = ((m_new, m), (l_new, l_sum), (o_new, o))
            whole = whole and all(bool((met | (new == old)).all()) for new, old in both)
            m_new, l_new, o_new = (np.where(met, new, old) for new, old in both)
        m, l_sum, o = m_new, l_new, o_new
        yield State(p, m, alpha, l_sum, o, careless, whole)


def _starts_alike(slip: Slip) -> bool:
    """Whether l and O, which are 0 before the first key, stay 0 if alpha is 0 there, not 1."""
    with np.errstate(all="ignore"):
        nothing = [0 * rescale(np.zeros(1)) for rescale in (slip.rescale_l, slip.rescale_o)]
    return slip.rescale_new != "later" and not np.any(nothing)  # NaN is not 0


def _empty_desk(slip: Slip, s: Array, v: Array) -> tuple[Array, Array, Array]:
    m = np.full((len(s), 1), slip.start, s.dtype)
    return m, np.zeros_like(m), np.zeros((len(s), v.shape[1]), s.dtype)


def _new_maximum(slip: Slip, m: Array, top: Array) -> Array:
    if not slip.use_max:
        return np.zeros_like(m)
    if slip.old_max:
        return m
    if slip.first_max:
        return np.where(np.isneginf(m), top, m)
    return top if slip.latest_max else slip.joined(m, top)


def _weights(slip: Slip, part: Array, top: Array) -> Array:
    """Return the weights of a tile of scores, measured against ``top``."""
    if np.isfinite(slip.clip):
        return np.exp(np.minimum(part, part.dtype.type(slip.clip)))
    if not slip.shifted:
        return np.exp(part)
    below = (part - top) * part.dtype.type(slip.p_power)
    if np.isfinite(slip.most_below):  # what is hidden stays so
        below = np.where(np.isneginf(part), below, np.maximum(below, -slip.most_below))
    return np.exp(below)


def _finite(m: Array, guarded: bool) -> Array:
    return finite_max(m) if guarded else m


def streamed(
    slip: Slip,
    s: Array,
    v: Array,
    tile: int,
    *,
    step: int = 0,
    ends: Array | None = None,
    guarded: bool = True,
    hidden: Array | None = None,
) -> Streamed:
    """Return o (n_q, d_v) and lse (n_q,) after tiles of ``tile`` keys, the last one filled up.

    The loop moves on by ``step`` keys, by default a tile. The rest as in `states`. o is
    ``ANYTHING`` where the weights add up to so little that their type rounds them coarsely. (In
    half precision they are 0 then.)
    """
    n_k, score = s.shape[1], slip.fill if np.isfinite(slip.fill) else 0.0
    s = _longer(s, n_k + tile, np.where(np.arange(tile) < slip.past_end, score, -np.inf))
    v = _longer(v.T, n_k + tile, 0).T
    tiles = [(first, first + tile) for first in range(0, n_k, step or tile)]
    tiles = tiles[::-1] if slip.backwards else tiles
    if hidden is not None:
        hidden = _longer(hidden, n_k + tile, False)
    m, l_sum, o = _empty_desk(slip, s, v)
    careless = whole = True
    m_before, l_before = m, l_sum  # of the last tile that a row met, so skipping is seen in them
    how: dict[str, Any] = {"guarded": guarded, "ends": ends, "n_real": n_k, "hidden": hidden}
    second = []
    if slip.two_desks:
        tiles, others = tiles[::2], tiles[1::2]
        second = [*states(slip, s, v, others, **how)][-1:]
    desk = states(slip, s, v, tiles, **how)
    for (first, _), last in zip(tiles, desk, strict=True):
        if slip.stale:
            met = True if ends is None else (first < ends)[:, None]
            m_before, l_before = np.where(met, m, m_before), np.where(met, l_sum, l_before)
        m, l_sum, o, careless, whole = last.m, last.l_sum, last.o, last.careless, last.whole
    for other in second:
        l_sum, o = l_sum + other.l_sum, o + other.o
        careless, whole = careless and other.careless, whole and other.whole
    if slip.repaid:
        l_sum = l_sum - -n_k % tile * np.exp(-finite_max(m))
    careless = careless and (slip.l_guarded is not None or bool(l_sum.all()))
    faint = is_coarse(l_sum)
    if guarded if slip.l_guarded is None else slip.l_guarded:
        l_sum = np.where(l_sum == 0, 1, l_sum)
    lse = slip.lse(m_before if slip.stale == "m" else m, l_before if slip.stale == "l" else l_sum)
    if slip.stale == "o":
        l_sum = l_before
    if slip.divide == "by lse":
        o = np.exp(s - lse) @ v  # lse may be infinite
    elif slip.divide not in ("never", "each", "new alone"):
        o = o / l_sum
    o = o if slip.half_weights else np.where(faint, ANYTHING, o)
    return Streamed(o, lse[:, 0], careless, whole and not slip.stale)


def is_anything(numbers: Array) -> Array:
    """Return which numbers (float64) are ``ANYTHING``: a NaN of its own, told by its bits."""
    return np.asarray(np.ascontiguousarray(numbers).view(np.uint64) == ANYTHING.view(np.uint64))


def is_coarse(l_sum: Array) -> Array:
    """Return which sums of weights are so small that their type rounds their first digits."""
    least = _COARSE * np.finfo(l_sum.dtype).smallest_subnormal
    return np.asarray((l_sum > 0) & (l_sum < least))


def stream(*inputs: Any, **how: Any) -> tuple[Array, Array]:
    """Return o and lse of `streamed`."""
    return streamed(*inputs, **how)[:2]


def _longer(x: Array, n: int, filled: Any) -> Array:
    """Return ``x`` (rows, columns) with ``n`` columns, of which the new ones are ``filled``."""
    longer = np.empty((len(x), n), x.dtype)
    longer[:, : x.shape[1]], longer[:, x.shape[1] :] = x, filled
    return longer
