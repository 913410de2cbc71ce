"""What lesson 03 shares: piles of scores, online softmax over them, and its mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.slips import SLIPS, states
from course_lib.judging import magnitudes, sizes
from course_lib.judging.cases import hard_rows
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.judges import array_finding
from course_lib.judging.misconceptions import (
    ALPHA_IS_1,
    BASES,
    BASES_SLIPS,
    BOUNDED,
    BOUNDED_SLIPS,
    CLIPPED,
    CLIPPED_SLIPS,
    LEFT_OUT,
    LEFT_OUT_SLIPS,
    NO_MAXIMUM_SLIPS,
    NOT_THE_MAXIMUM,
    NOT_THE_MAXIMUM_SLIPS,
    ONLY_RISES,
    SAYS,
    STARTS_LOW,
    STARTS_LOW_SLIPS,
    ZERO_AT_LEAST,
)
from course_lib.judging.spec import Observed, table

Piles = list[np.ndarray]  # (n,) scores or (n, d) values of each pile; n differs between piles
State = tuple[Any, ...]


def together(piles: Piles, values: Piles) -> np.ndarray:
    """Return the weighted average (d,) of all values at once, in float64."""
    s = np.concatenate(piles)
    p = np.exp(s - s.max())
    return p @ np.concatenate(values) / p.sum()


def walk(
    piles: Piles, values: Piles, slip: str = "right", *, guarded: bool = True, **changed: Any
) -> tuple[list[State], np.ndarray]:
    """Return each state (m, alpha, l_sum, o) after a pile, and the answer, with a named slip.

    ``guarded``: with care for piles without keys; ``changed`` are fields of the `Slip`.
    """
    made = replace(SLIPS[slip], **changed)
    guarded = guarded and slip not in ("no_guard", "inverse_at_once")
    stops = np.cumsum([len(s) for s in piles])
    tiles = zip([0, *stops[:-1]], stops, strict=True)
    s, v = np.concatenate(piles)[None], np.concatenate(values)
    steps = [
        (m.item(), alpha.item(), l_sum.item(), o[0])
        for _, m, alpha, l_sum, o, *_ in states(made, s, v, tiles, guarded=guarded)
    ]
    _, _, l_sum, o = steps[-1]
    whole = made.divide in ("never", "each", "new alone")
    return steps, o if whole else o / np.float64(l_sum)


INFINITE_AT_FIRST = "exp(+inf) in the first pile"
_E_ALONE = (
    "exp and exp2 (or a factor log2(e)) do not belong together: exp everywhere, without the factor."
)
# The ways of each are names among SLIPS. The last ones give NaN on many inputs: they stand last, so
# that a clearer explanation of the NaN comes first.
STREAM_MISTAKES = table(
    ("O is not rescaled",
     "l_sum is multiplied by alpha when a new maximum arrives, O is not. Both were measured "
     "against the old maximum, so both must shrink.",
     "no_rescale_o"),
    ("O is not rescaled",
     "O is divided after every pile, and the old one is an average then: multiply it by its share "
     "of the sum, l_sum * alpha, before the new pile is added.",
     "divide_each_no_rescale_o"),
    ("l_sum is not rescaled",
     "O is multiplied by alpha when a new maximum arrives, l_sum is not. Both were measured "
     "against the old maximum, so both must shrink.",
     "no_rescale_l"),
    ("rescaled twice",
     "alpha brings what is old to the new maximum: multiply by it once in each pile.",
     "alpha_twice_in_l", "alpha_twice_in_o", "alpha_twice"),
    ("nothing is rescaled",
     "the old l_sum and O are kept as they were when a new maximum arrives: multiply both by "
     f"alpha = exp(m - m_new). {ALPHA_IS_1}",
     "neither"),
    ("each pile uses its own maximum",
     "the exponentials of a pile are taken against that pile's maximum. They must be taken against "
     "m_new, the largest score of all piles so far.",
     "own_max"),
    (ZERO_AT_LEAST, SAYS[ZERO_AT_LEAST], "start_zero"),
    (STARTS_LOW,
     "m starts at a large negative number. Where all scores lie below it, every exponential "
     "vanishes. Start at -inf.",
     *STARTS_LOW_SLIPS),
    (ONLY_RISES, SAYS[ONLY_RISES].replace("tile", "pile"), "only_rises"),
    ("a maximum of 0 counts as none",
     "where the maximum so far is exactly 0, all that came before is lost. `if m` is False for 0 "
     "as well as for None: start at -inf, and ask for nothing.",
     "zero_is_none"),
    ("m forgets the earlier piles",
     "m_new is the maximum of the newest pile only. When the scores fall, alpha becomes very large "
     "and overflows: m_new = max(m, maximum of the pile).",
     "latest_max"),
    ("no maximum is subtracted",
     "exp(score) is taken as it is. exp(1000) is too large for a float: subtract the maximum.",
     *NO_MAXIMUM_SLIPS),
    (CLIPPED, SAYS[CLIPPED], *CLIPPED_SLIPS),
    (BOUNDED, SAYS[BOUNDED], *BOUNDED_SLIPS),
    (LEFT_OUT, SAYS[LEFT_OUT], *LEFT_OUT_SLIPS),
    (BASES, _E_ALONE, *BASES_SLIPS),
    ("m is never updated", "m keeps its first value: end the loop with m = m_new.", "keep_max"),
    ("the new pile is rescaled as well",
     "alpha brings the old sums to the new maximum. The new pile is measured against it already: "
     "add it after the multiplication.",
     "rescale_all"),
    ("the new pile is rescaled as well",
     "alpha belongs to the old sums alone: of the new pile, and of what has alpha already, nothing "
     "is to be multiplied by it.",
     *(slip for slip in SLIPS if slip.startswith("rescale_") and slip != "rescale_all")),
    ("O is not rescaled", "O was measured against the old sum.", "no_rescale_o_whole"),
    (BASES, _E_ALONE, "base_2_in_o_whole", "base_2_in_p_whole"),
    ("l_sum holds the last pile only",
     "O adds up all piles, but l_sum is overwritten in each: l_sum = alpha * l_sum + p.sum().",
     "forget_l"),
    ("O holds the last pile only",
     "l_sum adds up all piles, but O is overwritten in each: o = alpha * o + p @ v.",
     "forget_o"),
    ("a pile without keys gives NaN",
     "in a fully masked pile every score is -inf. As long as no key was seen, so is m_new, and "
     "-inf - (-inf) is NaN: subtract 0 instead. Or pass such a pile over and go on to the next "
     "(continue): where the walk ends with it, 0 / 0 is left.",
     "no_guard"),
    ("divided after every pile",
     "O is divided by l_sum inside the loop: it is an average then, and l_sum still a sum. Divide "
     "once, after the loop.",
     "divide_each", "divide_new_alone"),
    ("divided after every pile and again at the end",
     "O is divided by l_sum inside the loop and once more after it. Divide once, after the loop.",
     "divide_each_and_last"),
    ("not divided",
     "O is the sum of weight times value. Divide it by l_sum, the sum of the weights, at the end.",
     "no_divide"),
    ("alpha is inverted",
     "alpha is exp(m_new - m): the past grows where it should shrink. alpha = exp(m - m_new) is "
     "never above 1.",
     "inverse"),
    (INFINITE_AT_FIRST,
     "m is still -inf there, so exp(m_new - m) and exp(s - m) are infinite, and infinity times 0 "
     "is NaN. alpha is exp(m - m_new), and scores are measured against m_new.",
     "inverse_at_once"),
    (NOT_THE_MAXIMUM, SAYS[NOT_THE_MAXIMUM], *NOT_THE_MAXIMUM_SLIPS),
)  # fmt: skip


def drawn(rng: Generator, tops: Sequence[float], d: int) -> tuple[Piles, Piles]:
    """Return piles of 1 to 5 scores whose maxima are ``tops`` (-inf: a masked pile), and values."""
    piles, values = [], []
    for top in tops:
        n = int(rng.integers(2, 6))
        s = rng.uniform(-3, 0, n) + (top if np.isfinite(top) else 0)
        s[rng.integers(n)] = top
        piles.append(s if np.isfinite(top) else np.full(n, top))
        values.append(rng.uniform(10, 90, (n, d)))
    return piles, values


MASKED, _WHOLE, _TIES = "some scores -inf", "values of whole numbers", "ties"


def related(rng: Generator) -> Iterator[tuple[str, Piles, Piles]]:
    """Yield (name, piles, values): few and many, short and long, alike or far apart, of any size.

    The largest score of a pile differs from that of the pile before by ``rise``.
    """
    for one in sizes.related(
        rng, 14,
        piles=(1, 2, 3, 9), n=(1, 2, 5, 40), d=(1, 3, 17, 70), scale=(1e-9, 1.0, 1e39),
        rise=(0.0, 1e-7, 2e-5, -2e-3, 0.4, -60.0, 3.0), kind=("no ties", _TIES, _WHOLE, MASKED),
    ):  # fmt: skip
        tops = one["rise"] * np.arange(one["piles"])
        piles = [top - rng.uniform(0, 3, one["n"]) for top in tops]
        for s, top in zip(piles, tops, strict=True):
            s[... if one["kind"] == _TIES else rng.integers(one["n"])] = top
        values = [one["scale"] * rng.uniform(10, 90, (len(s), one["d"])) for s in piles]
        if one["kind"] == _WHOLE:  # the values: scores may be -inf, so they are floats
            values = [rng.integers(10, 90, v.shape) for v in values]
        if one["kind"] == MASKED:  # what stands at a masked key, however large, does not count
            for s, v in zip(piles, values, strict=True):
                hidden = (rng.uniform(size=len(s)) < 0.5) & (s < s.max())
                s[hidden], v[hidden] = -np.inf, 1e200
        name = f"{one['piles']} piles of {one['n']} scores, {one['kind']}"
        yield f"{name}; the largest differs by {one['rise']:g} from pile to pile", piles, values


def far_apart(rng: Generator) -> list[tuple[str, Piles, Piles]]:
    """Return piles whose weights and values lie far apart, some of a single score."""
    stops = [1, 4, 9, 10, 11, 12, 13]
    return [
        (name, np.split(s, stops), np.split(v[:, None] * rng.uniform(1, 2, (len(v), 3)), stops))
        for name, s, v in (
            *magnitudes.rows(rng, 18),
            ("scores that rise by 240, values of 1e206", *magnitudes.steep(rng, 18, 240.0, 1e206)),
        )
    ]


def hard_piles(rng: Generator) -> list[tuple[str, Piles, frozenset[str]]]:
    """Return the hard rows of scores cut into five piles, the last of them a single score."""
    (_, (_, up, down), jumps), (far, (low, *_), below), _ = hard_rows(rng, 21)
    zeros = np.concatenate([np.zeros(10), rng.standard_normal(11)])
    rows = [
        ("scores that climb and jump by 4000 within a pile", up, jumps),
        ("scores that fall and jump by 4000 within a pile", down, jumps),
        (far, low, below),
        ("scores of which the first 10 are exactly 0", zeros, frozenset()),
    ]
    return [(name, np.split(row, [3, 8, 14, 20]), shows) for name, row, shows in rows]


# so far below the largest score; the farthest of them has the weight exp(-40)
_BELOW = (0, 8.5, 12.5, 16.5, 20.5, 25, 30, 40)
FAINT_NAME = "piles far below the largest score, which count as much: their values are as large"


def faint(rng: Generator) -> tuple[Piles, Piles]:
    """Return piles in which each has a weight smaller than the last, and values as much larger.

    Whoever leaves out what lies far below the maximum loses a good part of the answer. There are
    64 values to a score, more than anywhere else.
    """
    piles, values = drawn(rng, [-below for below in _BELOW], d=64)
    return piles, [v * np.exp(below) for v, below in zip(values, _BELOW, strict=True)]


def crowded(rng: Generator) -> Piles:
    """Return piles far below the largest score, which count because they hold so many."""
    return [np.zeros(1), *(rng.uniform(-below - 1, -below, 4000) for below in _BELOW[1:5])]


def sudden(rng: Generator) -> Iterator[tuple[float, tuple[Piles]]]:
    """Yield how far below, and one of those piles with the largest score behind it.

    In `crowded` the maximum climbs in steps: none is so large that who drops a small alpha shows.
    """
    largest, *below = crowded(rng)
    for s in below:
        yield -round(s.min()), ([s, largest],)


LOW, HIGH = np.array([1.0, 3.0]), np.array([2.0, 5.0])
V_LOW, V_HIGH = np.array([[10.0], [20.0]]), np.array([[30.0], [40.0]])
ORDERS = {
    "first": ([LOW, HIGH], [V_LOW, V_HIGH]),
    "reversed": ([HIGH, LOW], [V_HIGH, V_LOW]),
}


def judge_state(
    names: tuple[str, ...], observed: Observed, expected: State, relative: float
) -> Finding | None:
    """Judge a state, each number under its name, to a relative error."""
    got = observed.result
    if fault := find_fault(got, tuple(np.asarray(x) for x in expected)):
        return fault
    for name, one, wanted in zip(names, got, expected, strict=True):
        wanted = np.asarray(wanted, dtype=np.float64)
        if finding := array_finding(one, wanted, relative=relative, name=name):
            return finding
    return None
