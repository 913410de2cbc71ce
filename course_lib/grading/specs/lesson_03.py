"""Exercises of lesson 03, online softmax by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.grading.judges import within
from course_lib.grading.spec import Case, Exercise, Mistake

Piles = list[np.ndarray]  # each (n,), the scores of one pile; n may differ from pile to pile


def _together(piles: Piles, values: Piles) -> np.ndarray:
    """Return the weighted average (d,) of all values at once, in float64."""
    s = np.concatenate(piles)
    p = np.exp(s - s.max())
    return p @ np.concatenate(values) / p.sum()


def _stream(
    piles: Piles,
    values: Piles,
    *,
    rescale_o: float = 1,
    rescale_l: float = 1,
    first_apart: bool = False,
    own_max: bool = False,
    latest_max: bool = False,
    keep_max: bool = False,
    start: float = -np.inf,
    use_max: bool = True,
    divide_each: bool = False,
    divide_last: bool = True,
) -> tuple[float, float, np.ndarray]:
    """Return (m, l_sum, answer) of online softmax as somebody with the named mistake writes it.

    Without a flag it is right except for piles without any key: -inf - (-inf) is NaN here.
    ``rescale_*`` is the power of alpha: 1 is right, 0 forgets it, -1 inverts it; ``first_apart``
    does not rescale before the first pile. ``own_max``: p uses the pile's maximum; ``latest_max``:
    so does m; ``keep_max``: m is never updated.
    """
    m, l_sum, o = np.float64(start), np.float64(0), np.zeros(values[0].shape[1])
    for j, (s, v) in enumerate(zip(piles, values, strict=True)):
        top = s.max()
        m_new = top if latest_max else np.maximum(m, top) if use_max else np.float64(0)
        rescaled = use_max and not (first_apart and j == 0)
        alpha = np.exp(m - m_new) if rescaled else np.float64(1)
        p = np.exp(s - (top if own_max else m_new))
        l_sum = l_sum * alpha**rescale_l + p.sum()
        o = o * alpha**rescale_o + p @ v
        if divide_each:
            o = o / l_sum
        m = m if keep_max else m_new
    return m, l_sum, o / l_sum if divide_last else o


def _mean_of_averages(piles: Piles, values: Piles) -> np.ndarray:
    return np.mean([_together([s], [v]) for s, v in zip(piles, values, strict=True)], axis=0)


# name, what to tell the student, the flags of _stream that make it. The last ones give NaN on
# many inputs: they stand last, so that a clearer explanation of the NaN comes first.
_STREAM_MISTAKES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "O is not rescaled",
        "l_sum is multiplied by alpha when a new maximum arrives, O is not. Both were measured "
        "against the old maximum, so both must shrink.",
        {"rescale_o": 0},
    ),
    (
        "l_sum is not rescaled",
        "O is multiplied by alpha when a new maximum arrives, l_sum is not. Both were measured "
        "against the old maximum, so both must shrink.",
        {"rescale_l": 0},
    ),
    (
        "nothing is rescaled",
        "the old l_sum and O are kept as they were when a new maximum arrives: multiply both by "
        "alpha = exp(m - m_new).",
        {"rescale_l": 0, "rescale_o": 0},
    ),
    (
        "each pile uses its own maximum",
        "the exponentials of a pile are taken against that pile's maximum. They must be taken "
        "against m_new, the largest score of all piles so far.",
        {"own_max": True},
    ),
    (
        "the maximum starts at 0",
        "m starts at 0. When all scores are very negative, m stays 0 and every exponential is "
        "too small for a float. Start at -inf.",
        {"start": 0.0},
    ),
    (
        "no maximum is subtracted",
        "exp(score) is taken as it is. exp(1000) is too large for a float: subtract the maximum.",
        {"use_max": False},
    ),
    (
        "m forgets the earlier piles",
        "m_new is the maximum of the newest pile only. When the scores fall, alpha becomes very "
        "large and overflows: m_new = max(m, maximum of the pile).",
        {"latest_max": True},
    ),
    (
        "m is never updated",
        "m keeps its first value: end the loop with m = m_new.",
        {"keep_max": True},
    ),
    (
        "divided after every pile",
        "O is divided by l_sum inside the loop. O and l_sum then no longer speak the same "
        "language. Divide once, after the loop.",
        {"divide_each": True, "divide_last": False},
    ),
    (
        "divided after every pile and again at the end",
        "O is divided by l_sum inside the loop and once more after it. Divide once, after the "
        "loop.",
        {"divide_each": True},
    ),
    (
        "not divided",
        "O is the sum of weight times value. Divide it by l_sum, the sum of the weights, at the "
        "end.",
        {"divide_last": False},
    ),
    (
        "a pile without keys gives NaN",
        "in a fully masked pile every score is -inf, and -inf - (-inf) is NaN. As long as no key "
        "was seen, subtract 0 instead of m_new.",
        {},
    ),
    (
        "alpha is inverted",
        "alpha is exp(m_new - m): the past grows where it should shrink. alpha = exp(m - m_new) "
        "is never above 1.",
        {"rescale_l": -1, "rescale_o": -1, "first_apart": True},
    ),
    (
        "alpha is inverted",
        "alpha is exp(m_new - m): the past grows where it should shrink, and before the first "
        "pile it is exp(+inf) times 0, which is NaN. alpha = exp(m - m_new) is never above 1.",
        {"rescale_l": -1, "rescale_o": -1},
    ),
)


def _averaging(flags: dict[str, Any]) -> Any:
    return lambda piles, values: _stream(piles, values, **flags)[2]


# --- 3.3 ----------------------------------------------------------------------------------------

_NO_KEYS = np.full(3, -np.inf)


def _drawn(rng: Generator, tops: list[float], d: int) -> tuple[Piles, Piles]:
    """Return piles of 1 to 5 scores whose maxima are ``tops`` (-inf: a masked pile), and values."""
    piles, values = [], []
    for top in tops:
        n = int(rng.integers(2, 6))
        s = rng.uniform(-3, 0, n) + (top if np.isfinite(top) else 0)
        s[rng.integers(n)] = top
        piles.append(s if np.isfinite(top) else np.full(n, top))
        values.append(10 * rng.standard_normal((n, d)) + 5)
    return piles, values


def _average_cases(rng: Generator) -> list[Case]:
    ten, thirty = np.array([[10.0], [20.0]]), np.array([[30.0], [40.0]])
    low, high = np.array([1.0, 3.0]), np.array([2.0, 5.0])
    holes = _drawn(rng, [1, 3, 2], d=3)
    for s in holes[0]:
        s[s.argmin()] = -np.inf  # some keys of a pile are masked, never its largest
    none = -np.inf
    drawn = {
        "three piles whose maxima rise": ([0, 2, 4], 3),
        "four piles, the largest score in the first": ([5, 3, 4, 2], 2),
        "scores near -150": ([-152, -150, -151], 3),
        "scores near +1000": ([1000, 1002, 1001], 2),
        "scores that fall from +900 to -900": ([900, 0, -900], 2),
        "a pile without any key in the middle (all its scores are -inf)": ([1, none, 3], 2),
        "a pile without any key at the front (all its scores are -inf)": ([none, 2, 1], 3),
    }
    return [
        Case("piles [1, 3] and [2, 5] with values 10, 20 and 30, 40", ([low, high], [ten, thirty])),
        Case("the same piles, [2, 5] first", ([high, low], [thirty, ten])),
        *[Case(name, _drawn(rng, *how)) for name, how in drawn.items()],
        Case("three piles in which some keys are masked (score -inf)", holes),
    ]


STREAM_AVERAGE = Exercise(
    id="3.3",
    function="stream_average",
    signature="(piles, values)",
    title="The weighted average, pile by pile",
    minutes=8,
    points=4,
    hints=(
        "Keep three numbers on the desk: m, l_sum and O. Start them at -inf, 0 and zeros. "
        "Each pile changes all three.",
        "For each pile: m_new first, then alpha = exp(m - m_new), then p against m_new. Old "
        "l_sum and old O are both multiplied by alpha. Divide after the loop.",
        "The last line but one of the loop is o = alpha * o + p @ v. As long as m_new is -inf, "
        "subtract 0 instead of m_new, in alpha and in p.",
    ),
    cases=_average_cases,
    truth=_together,
    judge=within(1e-6),
    notice="Your loop never held more than one pile, and the answer is that of the whole row. "
    "Give it tiles instead of piles and a block of queries instead of one: that is FlashAttention.",
    mistakes=(
        *[Mistake(name, says, _averaging(flags)) for name, says, flags in _STREAM_MISTAKES],
        Mistake(
            "the mean of the piles' averages",
            "each pile gets the same say, however small its scores are. Piles must be weighed "
            "against each other.",
            _mean_of_averages,
        ),
    ),
)

EXERCISES = (STREAM_AVERAGE,)
