"""Exercises 3.2 and 3.3: the denominator and the average, pile by pile.

Longer than 400 lines because two exercises share their piles and most of their mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.online_softmax import finite_max
from course_lib.attention.slips import LOW_NUMBERS, SLIPS
from course_lib.judging.cases import FALL, FAR_BELOW, FARTHEST, FARTHEST_NAME, MANY
from course_lib.judging.desk import Once, on_a_desk, taken_once
from course_lib.judging.finding import Finding
from course_lib.judging.judges import Judge, tells_what_is_cut_off, within
from course_lib.judging.mask_mistakes import NOT_HIDDEN
from course_lib.judging.misconceptions import (
    ALPHA_IS_1,
    BASES,
    NOT_THE_MAXIMUM,
    STARTS_LOW,
    order_matters,
)
from course_lib.judging.spec import Case, Exercise, Mistake, Observed, table
from course_lib.judging.tolerance import in_double
from course_lib.specs.lesson_03.piles import (
    FAINT_NAME,
    HIGH,
    INFINITE_AT_FIRST,
    LOW,
    MASKED,
    ORDERS,
    STREAM_MISTAKES,
    Piles,
    State,
    crowded,
    drawn,
    faint,
    far_apart,
    hard_piles,
    judge_state,
    related,
    sudden,
    together,
    walk,
)

_EITHER_WAY = {
    "O is not rescaled",
    "l_sum is not rescaled",
    "nothing is rescaled",
    "O holds the last pile only",
    "l_sum holds the last pile only",
    BASES,
}


def _averaging(
    slip: str, piles: Piles, values: Piles, *, step: int = 1, **changed: Any
) -> np.ndarray:
    """Return what a slip makes; ``step`` -1: in a loop from the last pile, as may be right."""
    return walk(piles[::step], values[::step], slip, **changed)[1]


def _averaging_key_by_key(slip: str, piles: Piles, values: Piles) -> np.ndarray:
    """Return what a slip makes that looks at each score on its own, masked ones left out."""
    s, v = np.concatenate(piles), np.concatenate(values)
    return walk(list(s[s > -np.inf, None]), list(v[s > -np.inf, None]), slip)[1]


_BACKWARDS = partial(_averaging, step=-1)
_UNGUARDED = partial(_averaging, guarded=False)
_FROM_BELOW = partial(_averaging, start=-1e300)


def _looped(
    piles: Piles,
    values: Piles,
    alpha: Callable[..., Any] = lambda m, base, top, first: np.exp(m - base),
    weights: Callable[..., Any] = lambda s, base, top: np.exp(s - base),
    mix: Callable[..., Any] = lambda p, v: p @ v,
) -> tuple[float, float, np.ndarray]:
    """Return m, l_sum and the average of a loop with another alpha, other weights or another sum.

    ``base`` is m_new, ``top`` the pile's own maximum, ``first`` the first pile's: 0 for -inf.
    """
    m, l_sum, o, first = -np.inf, 0.0, np.zeros(values[0].shape[1]), finite_max(piles[0].max())
    for s, v in zip(piles, values, strict=True):
        m_new, top = max(m, s.max()), finite_max(s.max())
        base = finite_max(m_new)
        shrink, p = alpha(m, base, top, first), weights(s, base, top)
        m, l_sum, o = m_new, shrink * l_sum + p.sum(), shrink * o + mix(p, v)
    return float(m), float(l_sum), o / np.float64(l_sum)


def _cut_off(case: Case, least: float) -> Iterator[Any]:
    """Yield what comes of a loop in which no difference is below a number, alpha's or not."""
    piles, *rest = case.args
    for lowest in (-np.inf, least):
        m, l_sum, o = _looped(
            piles,
            rest[0] if rest else _no_values(piles),
            alpha=lambda m, base, *_, lowest=lowest: np.exp(max(m - base, lowest)),
            weights=lambda s, base, _: np.exp(np.maximum(s - base, least)),
        )
        yield o if rest else (m, l_sum)


# of loops that are written in other ways: how to make them with `_looped`
_OTHER_LOOPS = table(
    ("alpha is measured against the pile's own maximum",
     "alpha = exp(m - m_new) brings what is old to m_new, the larger of m and the pile's maximum: "
     "against the pile's alone it grows where scores fall.",
     {"alpha": lambda m, base, top, first: np.exp(m - top)},
     {"alpha": lambda m, base, top, first: np.exp(m - top),
      "weights": lambda s, base, top: np.exp(s - top)}),
    ("alpha is measured against the first maximum",
     "alpha = exp(m - m_new), and m is the maximum so far: end the loop with m = m_new.",
     {"alpha": lambda m, base, top, first: np.exp(first - base) if np.isfinite(m) else 0.0}),
)  # fmt: skip


def _averages(
    piles: Piles, values: Piles, weighed: Callable[[Piles], Any] = lambda piles: None
) -> np.ndarray:
    """Return the average of the piles' averages, each ``weighed``."""
    each = [together([s], [v]) for s, v in zip(piles, values, strict=True)]
    return np.asarray(np.average(each, axis=0, weights=weighed(piles)))


def _guarded_at_the_first(piles: Piles, values: Piles) -> np.ndarray:
    two = np.concatenate(piles[:2])
    return together(piles, values) if np.isfinite(two).any() else np.full_like(values[0][0], np.nan)


def _ended_at_no_keys(piles: Piles, values: Piles) -> np.ndarray:
    """Return the average of what comes before the first pile without keys."""
    met = next((i for i, s in enumerate(piles) if np.isneginf(s).all()), len(piles))
    return together(piles[:met], values[:met]) if met else np.full_like(values[0][0], np.nan)


def _denominator(piles: Piles) -> State:
    s = np.concatenate(piles)
    return float(s.max()), float(np.exp(s - s.max()).sum())


def _no_values(piles: Piles) -> Piles:
    return [np.zeros((len(s), 1)) for s in piles]


def _denominator_walk(piles: Piles, slip: str, **changed: Any) -> State:
    m, _, l_sum, _ = walk(piles, _no_values(piles), slip, **changed)[0][-1]
    return m, l_sum


def _sum_from_first(piles: Piles, slip: str) -> State:
    """Return what a slip makes where m begins as the first pile's maximum, and goes wrong later."""
    return _denominator_walk(piles, slip, start=piles[0].max())


def _with_right_m(piles: Piles, slip: str) -> State:
    """Return the right m, and a sum that was measured against another number and brought to m."""
    m, _ = _denominator(piles)
    other, l_sum = _denominator_walk(piles, slip)
    return m, l_sum * float(np.exp(other - m))


def _other_sum(sum_of: Callable[[Piles, float], Any]) -> Callable[[Piles], State]:
    """Return a model with the right m and ``sum_of(piles, m)``."""

    def model(piles: Piles) -> State:
        m, _ = _denominator(piles)
        return m, float(sum_of(piles, m))

    return model


def _smallest(piles: Piles) -> State:
    s = np.concatenate(piles)
    return float(s.min()), float(np.exp(s - s.min()).sum())


# so many piles that joining them shows in memory (beside what printing one takes), and so many that
# notes of each of them do
_MANY = {
    f"{n} piles of {size} scores, memory measured": (n, size) for n, size in ((256, 64), (3000, 1))
}


def _many(rng: Generator, n: int, size: int) -> tuple[Piles, Piles]:
    """Return n piles of ``size`` scores; each has values of its own size.

    A pile in Python's own numbers, four times as large as in NumPy's, does not show.
    """
    rise, step = np.arange(n) * 4 / n, np.arange(n) * 16 / n
    piles = [rng.uniform(low - 3, low, size) for low in rise]
    return piles, [rng.uniform(low, low + 5, (size, 1)) for low in step]


def _farthest(*piles: tuple[float, ...]) -> Piles:
    """Return piles of scores, each a multiple of `FARTHEST`."""
    return [FARTHEST * np.array(s) for s in piles]


# what is off by one in each pile adds up, from whichever end they are read
_SINGLE = np.split(np.abs(np.linspace(FALL, -FALL, 2 * MANY)), 2 * MANY)
_SINGLE_NAME = f"{2 * MANY} piles of one score, which fall and then rise"
_BEYOND = [np.array(s) for s in ([1e17], [1e39, 1e17], [-1e17, 1e17])]
_FINITE = (1e17, -1e15, 1e14, -1e300)  # of scores, all of which a float holds
_READ_ONCE = {
    "piles": Once("reads each pile once", "pile {}", looks=0),
    "values": Once("reads each pile once", "values[{}]", least=0),  # weights may be 0
}


_NOTES = 64  # bytes: less than two of Python's numbers for each pile, more than its number


def _joined(case: Case, held: int) -> Finding | None:
    piles = case.args[0]
    row = sum(s.nbytes for s in piles)
    if held <= max(row // 2, _NOTES * len(piles)):
        return None
    return Finding(
        "one pile at a time",
        f"the answer is right, but your function held {held / 1e3:.0f} kB at once; "
        f"all scores of the row are {row / 1e3:.0f} kB. Keep no piles, and no notes of each pile: "
        "look at one, change the notes, forget it.",
    )


def _pile_by_pile(judge: Judge) -> Judge:
    return taken_once(judge, lambda _case: _READ_ONCE, _joined, part="pile")


def _run_piles(function: Callable[..., Any], case: Case) -> Observed:
    return on_a_desk(function, case, ("piles", "values")[: len(case.args)])


def _denominator_cases(rng: Generator) -> list[Case]:
    tops = {
        "three piles whose maxima rise": [0, 2, 4],
        "four piles, the largest score in the first": [5, 3, 4, 2],
        "five piles of scores near +1000": [1000, 1002, 1001, 1003, 999],
        "scores near -800": [-802, -800, -801],
        "scores that fall from +900 to -900": [900, 0, -900],
        "four piles, three of them with the same maximum": [3, 3, 1, 3],
        "a single pile": [2],
    }
    return [
        Case("piles [1, 3] and [2, 5]", ([LOW, HIGH],)),
        Case("piles [2, 5] and [1, 3]", ([HIGH, LOW],)),
        *[Case(name, (drawn(rng, how, d=1)[0],)) for name, how in tops.items()],
        *[Case(name, (piles,), shows=shows) for name, piles, shows in hard_piles(rng)],
        Case(FARTHEST_NAME, (_farthest((3, 2), (2,), (1, 2, 4)),)),
        *[
            Case(f"thousands of scores far below the largest; that {where}", (piles[::step],))
            for piles in [crowded(rng)]
            for where, step in (("first", 1), ("last", -1))
        ],
        *[
            Case(f"thousands of scores up to {below:g} below the largest, which comes at once", two)
            for below, two in sudden(rng)
        ],
        *[Case(name, (piles,)) for name, piles, _ in related(rng) if MASKED not in name],
        *[Case(name, (piles,)) for name, piles, _ in far_apart(rng)],
        Case("a thousand scores of 704 after a score of 0", ([np.zeros(1), np.full(1000, 704.0)],)),
        Case("a single pile of two equal scores", ([np.full(2, 2.0)],)),
        Case("one score of 1e39, others of 1e17", (_BEYOND,)),
        *[
            Case(f"three scores of {top:g}, one far below", ([s, np.array([top, low]), s],))
            for s, top, low in ((np.full(1, x), x, x - abs(x)) for x in _FINITE)
        ],
        # last: to tell a mistake from others on thousands of piles takes long
        Case(_SINGLE_NAME, (_SINGLE,)),
        *[Case(name, _many(rng, *how)[:1], counted=True) for name, how in _MANY.items()],
        Case(
            "thousands of scores of -1000 after a score of 0", ([np.zeros(1), np.full(4000, -1e3)],)
        ),
    ]


def _judge_denominator(case: Case, observed: Observed, expected: State) -> Finding | None:
    allowed = in_double(np.concatenate(case.args[0]))
    return judge_state(("m", "l_sum"), observed, expected, allowed)


_DENOMINATOR_MISTAKES = Mistake.table(
    ("l_sum is not rescaled",
     "the old l_sum was measured against the old maximum: multiply it by exp(m - m_new) before you "
     f"add the new pile. {ALPHA_IS_1}",
     lambda piles: _denominator_walk(piles, "no_rescale_l")),
    ("only the last pile is counted",
     "add to what came before. If you do, then alpha is always 0: is the loop's m = m_new missing?",
     _other_sum(lambda piles, m: np.exp(piles[-1] - m).sum())),
    ("only the first pile is counted", "is the `return` inside the loop?",
     lambda piles: _denominator(piles[:1])),
    ("no maximum is subtracted",
     "exp(score) is taken as it is. exp(1000) is too large for a float: subtract the maximum.",
     _other_sum(lambda piles, m: np.exp(np.concatenate(piles)).sum())),
    (INFINITE_AT_FIRST,
     "m is still -inf there, so exp(s - m) is infinite: measure scores against m_new.",
     _other_sum(lambda piles, m: np.inf)),
    *((name, says, partial(_with_right_m, slip=slip))
      for name, says, slip in STREAM_MISTAKES if name == NOT_THE_MAXIMUM),
    *((name, f"m is right, and l_sum is not measured against it: {says[0].lower()}{says[1:]}",
       lambda piles, slip=slip: (_denominator(piles)[0], _denominator_walk(piles, slip)[1]))
      for name, says, slip in STREAM_MISTAKES if name == NOT_THE_MAXIMUM),
    ("the minimum is taken",
     "every exponential would be 1 or more, and overflow: take the maximum.", _smallest),
    ("the mean of a pile, not its sum",
     "l_sum is the sum of all exponentials: .sum(), not .mean().",
     _other_sum(lambda piles, m: sum(np.exp(s - m).mean() for s in piles))),
    ("the log of the sum is kept",
     "l_sum is made of a log-sum-exp: exp(lse - m). Where scores are large, the log of the sum is "
     "less than the last digit of lse, and lost: keep the sum itself.",
     _other_sum(lambda piles, m: np.exp(np.logaddexp.reduce(np.hstack(piles)) - m))),
    (STARTS_LOW,
     "m starts at a large negative number, and all scores here lie below it: start at -inf.",
     *(partial(_denominator_walk, slip="right", start=low)
       for low in (-1e30, float(np.finfo(np.float32).min)))),
    ("lse in place of l_sum", "this is m + ln(l_sum), the log-sum-exp: return the sum itself.",
     _other_sum(lambda piles, m: np.logaddexp.reduce(np.hstack(piles)))),
    ("the two values are exchanged", "return m first, then l_sum.",
     lambda piles: _denominator(piles)[::-1]),
    *((name, says, partial(_denominator_walk, slip=slip)) for name, says, slip in STREAM_MISTAKES),
    *((name, says, partial(_sum_from_first, slip=slip))
      for name, says, slip in STREAM_MISTAKES if name == NOT_THE_MAXIMUM),
    *((name, says, lambda piles, how=how: _looped(piles, _no_values(piles), **how)[:2])
      for name, says, how in _OTHER_LOOPS),
)  # fmt: skip


STREAM_DENOMINATOR = Exercise.of(
    "3.2",
    cases=_denominator_cases,
    truth=_denominator,
    judge=_pile_by_pile(tells_what_is_cut_off(_judge_denominator, _cut_off)),
    run=_run_piles,
    without_torch=True,
    mistakes=_DENOMINATOR_MISTAKES,
)


def _filled(piles: Piles, values: Piles, fill: float) -> np.ndarray:
    return together([np.where(np.isneginf(s), fill, s) for s in piles], values)


# beyond them nobody tells masked scores from a maximum that starts there
_TOLD_APART = [low for _, low in LOW_NUMBERS if low < 1e12]


def _masked_below(piles: Piles, values: Piles, low: float) -> np.ndarray:
    """Return the average of what is above -low."""
    seen = [np.where(s > -low, s, -np.inf) for s in piles]
    none = np.isneginf(np.concatenate(seen)).all()
    return np.full_like(values[0][0], np.nan) if none else together(seen, values)


def _zero_after_no_keys(piles: Piles, values: Piles) -> np.ndarray:
    """Return what comes out if m is 0, and not -inf, after piles without keys at the front."""
    no_keys = bool(np.isneginf(piles[0]).all())
    return walk(piles, values, "start_zero")[1] if no_keys else together(piles, values)


def _blind(piles: Piles) -> frozenset[str]:
    """Return what happens to be right where all weights are as good as equal."""
    return frozenset({"mean(V)"} if np.ptp(np.concatenate(piles)) < 1e-1 else ())


def _below_1e30() -> tuple[Piles, Piles]:
    piles = [np.array(s) for s in ([-2e31], [-1e31, -3e31])]
    return piles, [10.0 + np.arange(2.0 * len(s)).reshape(-1, 2) for s in piles]


def _judge_average(case: Case, observed: Observed, expected: Any) -> Finding | None:
    """Judge an average as exactly as its scores let it be: a small number added to l_sum shows."""
    return within(in_double(np.concatenate(case.args[0])))(case, observed, expected)


def _average_cases(rng: Generator) -> list[Case]:
    holes = drawn(rng, [1, 3, 2], d=3)
    for s in holes[0]:
        s[s.argmin()] = -np.inf  # some keys of a pile are masked, never its largest
    unvalued = drawn(rng, [1, 3, 2], d=2)
    for v in unvalued[1][:2]:
        v[...] = 0.0
    none = -np.inf
    below = drawn(rng, [none, FAR_BELOW, FAR_BELOW + 2, none, FAR_BELOW + 1], d=2)
    for s in below[0]:
        s[s.argmin()] = none  # of the piles that have keys, some are masked
    lowest = _farthest((np.inf, np.inf), (2, np.inf), (1, 3, 2), (np.inf,), (2, 4))
    tops: dict[str, tuple[list[float], int]] = {
        "three piles whose maxima rise": ([0, 2, 4], 3),
        "four piles, the largest score in the first": ([5, 3, 4, 2], 2),
        "scores near +1000": ([1000, 1002, 1001], 2),
        "scores near -800": ([-802, -800, -801], 3),
        "scores that fall from +900 to -900": ([900, 0, -900], 2),
        "a pile without any key in the middle (all its scores are -inf)": ([1, none, 3], 2),
        "a pile without any key at the front (all its scores are -inf)": ([none, 2, 1], 3),
        "two piles without any key at the front": ([none, none, 2], 3),
        "a pile without any key at the back": ([1, 2, none], 3),
        "four piles, three of them with the same maximum": ([3, 3, 1, 3], 2),
        "a single pile": ([2], 1),
    }
    return [
        Case("piles [1, 3] and [2, 5] with values 10, 20 and 30, 40", ORDERS["first"]),
        Case("the same piles, [2, 5] first", ORDERS["reversed"]),
        *[Case(name, drawn(rng, *how)) for name, how in tops.items()],
        Case("three piles in which some keys are masked (score -inf)", holes),
        Case(f"masked keys, a pile without any at the front, scores near {FAR_BELOW:g}", below),
        Case("three piles, the values of the first two are 0", unvalued),
        *[
            Case(name, (piles, [rng.uniform(10, 90, (len(s), 2)) for s in piles]), shows=shows)
            for name, piles, shows in hard_piles(rng)
        ],
        Case(
            f"masked keys, a pile without any at the front, {FARTHEST_NAME}",
            (lowest, [rng.uniform(10, 90, (len(s), 2)) for s in lowest]),
        ),
        *[
            Case(f"{FAINT_NAME}; the largest {where}", (piles[::step], values[::step]))
            for piles, values in [faint(rng)]
            for where, step in (("first", 1), ("last", -1))
        ],
        Case("scores of -1e31 and far below", _below_1e30()),
        *[
            Case(name, (piles, values), blind_to=_blind(piles))
            for name, piles, values in (
                *related(rng),
                *far_apart(rng),
                ("a single key", [np.ones(1)], [rng.uniform(10, 90, (1, 3))]),
            )
        ],
        # last: to tell a mistake from others on thousands of piles takes long
        Case(_SINGLE_NAME, (_SINGLE, np.split(rng.uniform(10, 90, (2 * MANY, 3)), 2 * MANY))),
        *[Case(name, _many(rng, *how), counted=True) for name, how in _MANY.items()],
        # who takes what is below such a number for masked leaves out one of the two
        *[
            Case(f"scores near {-low:g}", ([np.array([0.5, -0.5]) - low], [np.eye(2)]))
            for low in _TOLD_APART
        ],
        Case("scores near +20000", drawn(rng, [2e4, 2e4 + 2, 2e4 + 1], d=2)),
    ]


_AVERAGE_MISTAKES = Mistake.table(
    ("only the last pile is counted",
     "add to what came before. If you do: is the loop's m = m_new missing, so that alpha is always "
     "0? Or is the new pile multiplied by alpha as well?",
     lambda piles, values: together(piles[-1:], values[-1:])),
    ("the loop ends at a pile without keys",
     "a pile of which all scores are -inf adds nothing, and there may be keys behind it: pass it "
     "over (continue, not break or return).",
     _ended_at_no_keys),
    ("a pile without keys gives NaN",
     "the first pile may have no key, and so may the second: as long as no key was seen, subtract "
     "0 instead of m_new, and go on.",
     _guarded_at_the_first),
    ("a low score counts as masked",
     "scores below some number are taken for masked. Only -inf is: where all scores are low, the "
     "largest of them has the largest weight.",
     *(partial(_masked_below, low=low) for low in _TOLD_APART)),
    *((name, says, partial(averaging, slip))
      for averaging in (_averaging, _BACKWARDS, _averaging_key_by_key, _UNGUARDED)
      for name, says, slip in STREAM_MISTAKES
      if averaging is not _BACKWARDS or name in _EITHER_WAY),
    *((name, says, partial(_FROM_BELOW, slip))
      for name, says, slip in STREAM_MISTAKES if name == NOT_THE_MAXIMUM),
    ("masked keys count as score 0",
     "a score of -inf has weight 0, and exp(0) is 1: leave -inf as it is.",
     partial(_filled, fill=0.0)),
    (NOT_HIDDEN,
     "a masked key gets a number in place of -inf. Real scores may lie below every such number: "
     "leave -inf as it is.",
     *(partial(_filled, fill=-low) for low in _TOLD_APART)),
    ("m stays 0 after a pile without keys",
     "as long as no key was seen, subtract 0 in place of m_new, but keep m = -inf: where all "
     "scores are very negative, a maximum of 0 leaves no weight.",
     _zero_after_no_keys),
    ("the mean of the piles' averages",
     "each pile gets the same say, however small its scores are. Piles must be weighed against "
     "each other.",
     _averages),
    ("piles are weighed by how many scores they have",
     "a pile of small scores says little, however many they are: its weight is its l_sum, brought "
     "to the same maximum as the others'.",
     partial(_averages, weighed=lambda piles: [len(s) for s in piles])),
    ("every weight meets every value",
     "a value is multiplied by its own weight alone: p @ v adds the products up. np.outer, or "
     "p.sum() times the sum of the values, pairs each weight with all values.",
     lambda piles, values: _looped(
         piles, values, mix=lambda p, v: np.outer(p, v.sum(axis=0)).sum(axis=0))[2],
     lambda piles, values: _looped(piles, values, mix=lambda p, v: p.sum() * v.mean(axis=0))[2]),
    ("only the first pile is counted", "is the `return` inside the loop?",
     lambda piles, values: together(piles[:1], values[:1])),
    # the rest of what the order of the piles makes another thing of
    *((name, says, partial(_BACKWARDS, slip)) for name, says, slip in STREAM_MISTAKES
      if name not in _EITHER_WAY and order_matters(SLIPS[slip])),
    *((name, says, lambda piles, values, how=how: _looped(piles, values, **how)[2])
      for name, says, how in _OTHER_LOOPS),
)  # fmt: skip


STREAM_AVERAGE = Exercise.of(
    "3.3",
    cases=_average_cases,
    truth=together,
    judge=_pile_by_pile(tells_what_is_cut_off(_judge_average, _cut_off)),
    run=_run_piles,
    without_torch=True,
    mistakes=_AVERAGE_MISTAKES,
)
