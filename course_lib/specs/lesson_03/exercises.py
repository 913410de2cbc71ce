"""Exercises of lesson 03, online softmax by hand."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.online_softmax import finite_max
from course_lib.judging.judges import Judge, array_finding, within
from course_lib.judging.peak import with_peak
from course_lib.judging.spec import Case, Exercise, Finding, Mistake, Observed
from course_lib.sandbox import faults

Piles = list[np.ndarray]  # (n,) scores or (n, d) values of each pile; n differs between piles
State = tuple[Any, ...]


def _together(piles: Piles, values: Piles) -> np.ndarray:
    """Return the weighted average (d,) of all values at once, in float64."""
    s = np.concatenate(piles)
    p = np.exp(s - s.max())
    return p @ np.concatenate(values) / p.sum()


def _walk(
    piles: Piles,
    values: Piles,
    *,
    rescale_o: bool = True,
    rescale_l: bool = True,
    rescale_new: bool = False,
    forget_o: bool = False,
    invert: bool = False,
    first_apart: bool = False,
    own_max: bool = False,
    latest_max: bool = False,
    keep_max: bool = False,
    start: float = -np.inf,
    use_max: bool = True,
    guard: bool = True,
    divide_each: bool = False,
    divide_last: bool = True,
) -> tuple[list[State], np.ndarray]:
    """Return online softmax as somebody with the named mistake writes it: each state, the answer.

    A state is (m, alpha, l_sum, o) after a pile. Without a flag all is right. ``first_apart`` does
    not rescale before the first pile. ``own_max``: p uses the pile's maximum; ``latest_max``: so
    does m; ``keep_max``: m is never updated; ``rescale_new``: the new pile shrinks as well;
    ``forget_o``: O is overwritten in each pile; without ``guard`` a pile without any key is
    -inf - (-inf), which is NaN.
    """
    safe: Callable[[Any], Any] = finite_max if guard else np.float64
    m, l_sum, o = np.float64(start), np.float64(0), np.zeros(values[0].shape[1])
    states = []
    for j, (s, v) in enumerate(zip(piles, values, strict=True)):
        top = s.max()
        m_new = top if latest_max else np.maximum(m, top) if use_max else np.float64(0)
        alpha = np.exp(safe(m_new) - m if invert else m - safe(m_new)) if use_max else np.float64(1)
        shrink = 1.0 if first_apart and j == 0 else alpha
        p = np.exp(s - safe(top if own_max else m_new))
        p_l = p * shrink if rescale_new else p
        l_sum = l_sum * (shrink if rescale_l else 1) + p_l.sum()
        o = (0 if forget_o else o * (shrink if rescale_o else 1)) + p_l @ v
        if divide_each:
            o = o / l_sum
        m = m if keep_max else m_new
        states.append((m, alpha, l_sum, o))
    return states, o / l_sum if divide_last else o


def _mean_of_averages(piles: Piles, values: Piles) -> np.ndarray:
    return np.mean([_together([s], [v]) for s, v in zip(piles, values, strict=True)], axis=0)


# name, what to tell the student, the flags of _walk that make it. The last ones give NaN on
# many inputs: they stand last, so that a clearer explanation of the NaN comes first.
_STREAM_MISTAKES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "O is not rescaled",
        "l_sum is multiplied by alpha when a new maximum arrives, O is not. Both were measured "
        "against the old maximum, so both must shrink.",
        {"rescale_o": False},
    ),
    (
        "l_sum is not rescaled",
        "O is multiplied by alpha when a new maximum arrives, l_sum is not. Both were measured "
        "against the old maximum, so both must shrink.",
        {"rescale_l": False},
    ),
    (
        "nothing is rescaled",
        "the old l_sum and O are kept as they were when a new maximum arrives: multiply both by "
        "alpha = exp(m - m_new).",
        {"rescale_l": False, "rescale_o": False},
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
        "m forgets the earlier piles",
        "m_new is the maximum of the newest pile only. When the scores fall, alpha becomes very "
        "large and overflows: m_new = max(m, maximum of the pile).",
        {"latest_max": True},
    ),
    (
        "no maximum is subtracted",
        "exp(score) is taken as it is. exp(1000) is too large for a float: subtract the maximum.",
        {"use_max": False},
    ),
    (
        "m is never updated",
        "m keeps its first value: end the loop with m = m_new.",
        {"keep_max": True},
    ),
    (
        "the new pile is rescaled as well",
        "alpha brings the old sums to the new maximum. The new pile is measured against it "
        "already: add it after the multiplication.",
        {"rescale_new": True},
    ),
    (
        "O holds the last pile only",
        "l_sum adds up all piles, but O is overwritten in each: o = alpha * o + p @ v.",
        {"forget_o": True},
    ),
    (
        "a pile without keys gives NaN",
        "in a fully masked pile every score is -inf, and -inf - (-inf) is NaN. As long as no key "
        "was seen, subtract 0 instead of m_new.",
        {"guard": False},
    ),
    (
        "divided after every pile",
        "O is divided by l_sum inside the loop: it is an average then, and l_sum still a sum. "
        "Divide once, after the loop.",
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
        "alpha is inverted",
        "alpha is exp(m_new - m): the past grows where it should shrink. alpha = exp(m - m_new) "
        "is never above 1.",
        {"invert": True, "first_apart": True},
    ),
    (
        "exp(+inf) in the first pile",
        "m is still -inf there, so exp(m_new - m) and exp(s - m) are infinite, and infinity times "
        "0 is NaN. alpha is exp(m - m_new), and scores are measured against m_new.",
        {"invert": True},
    ),
)


def _averaging(flags: dict[str, Any]) -> Any:
    return lambda piles, values: _walk(piles, values, **flags)[1]


def _drawn(rng: Generator, tops: Sequence[float], d: int) -> tuple[Piles, Piles]:
    """Return piles of 1 to 5 scores whose maxima are ``tops`` (-inf: a masked pile), and values."""
    piles, values = [], []
    for top in tops:
        n = int(rng.integers(2, 6))
        s = rng.uniform(-3, 0, n) + (top if np.isfinite(top) else 0)
        s[rng.integers(n)] = top
        piles.append(s if np.isfinite(top) else np.full(n, top))
        values.append(rng.uniform(10, 90, (n, d)))
    return piles, values


# --- 3.1 ----------------------------------------------------------------------------------------

_LOW, _HIGH = np.array([1.0, 3.0]), np.array([2.0, 5.0])
_V_LOW, _V_HIGH = np.array([[10.0], [20.0]]), np.array([[30.0], [40.0]])
_ORDERS = {
    "first": ([_LOW, _HIGH], [_V_LOW, _V_HIGH]),
    "reversed": ([_HIGH, _LOW], [_V_HIGH, _V_LOW]),
}


def _sheet(**flags: Any) -> dict[str, dict[str, float]]:
    """Return what somebody with the named mistake writes on paper, for both orders."""
    sheet = {}
    for order, (piles, values) in _ORDERS.items():
        ((m1, _, l1, o1), (m2, alpha, l2, o2)), answer = _walk(piles, values, **flags)
        numbers = (m1, l1, o1[0], m2, alpha, l2, o2[0], answer[0])
        names = ("m1", "l1", "o1", "m2", "alpha", "l2", "o2", "answer")
        sheet[order] = {name: float(x) for name, x in zip(names, numbers, strict=True)}
    return sheet


def _sheet_with_alpha_inverted() -> dict[str, dict[str, float]]:
    return {order: x | {"alpha": 1 / x["alpha"]} for order, x in _sheet().items()}


def _judge_sheet(case: Case, observed: Observed, expected: Any) -> Finding | None:
    sheet = observed.result
    for order, numbers in expected.items():
        sums = {"o1": numbers["l1"], "o2": numbers["l2"]}
        if not isinstance(sheet, dict) or not isinstance(sheet.get(order), dict):
            says = "return a dict with the keys 'first' and 'reversed', each a dict of 8 numbers."
            return Finding("the form", says)
        for name, wanted in numbers.items():
            got = sheet[order].get(name)
            if finding := _judge_entry(order, name, got, wanted, sums.get(name)):
                return finding
    return None


def _judge_entry(
    order: str, name: str, got: Any, wanted: float, l_sum: float | None
) -> Finding | None:
    """Judge one number: four careful digits are enough (1 part in 1000).

    ``l_sum`` belongs to an O: it tells an O that is divided already.
    """
    place = f"{name!r} of the {order!r} order"
    try:
        off = abs(float(got) - wanted)
    except (TypeError, ValueError):
        return Finding("the form", f"{place} should be a number; it is {got!r}.")
    if off <= 1e-3 * wanted:
        return None
    if off <= 1e-2 * wanted:
        return Finding("five digits", f"{place} is {got:.6g}: close. Keep five digits everywhere.")
    if l_sum and abs(float(got) * l_sum - wanted) <= 1e-3 * wanted:
        says = f"{place} is {got:.6g}: that is an average. O is a sum; divide only in 'answer'."
        return Finding("divided too early", says)
    if name == "answer" and not 10 <= float(got) <= 40:
        return Finding(
            "the answer",
            f"{place} is {got:.6g}. An average of 10, 20, 30 and 40 cannot lie outside 10 to 40.",
        )
    return Finding("the answer", f"{place} is {got:.6g}: that is not it.")


BY_HAND = Exercise(
    id="3.1",
    function="by_hand",
    signature="()",
    title="Two piles by hand, in both orders",
    minutes=8,
    points=3,
    hints=(
        "l1 and o1 are the sum and the weighted sum of pile 1 alone, with weights "
        "exp(score - m1). Nothing is divided yet.",
        "alpha = exp(m1 - m2). In one of the two orders the maximum does not change: alpha is 1.",
        "l2 = alpha * l1 + the new weights. o2 = alpha * o1 + the new weights times their values. "
        "answer = o2 / l2.",
    ),
    cases=lambda _rng: [Case("")],
    truth=_sheet,
    judge=_judge_sheet,
    notice="m2, l2, o2 and the answer are the same in both orders, though the ways there differ. "
    "The two orders catch different mistakes: that is why one example is never enough.",
    kind="question",
    mistakes=(
        *[
            Mistake(name, says, lambda flags=flags: _sheet(**flags))
            for name, says, flags in _STREAM_MISTAKES
            if name != "exp(+inf) in the first pile"  # nobody writes NaN on paper
        ],
        Mistake(
            "alpha is inverted",
            "alpha is exp(m1 - m2), the old maximum minus the new one: never above 1.",
            _sheet_with_alpha_inverted,
        ),
    ),
)


# --- 3.2 ----------------------------------------------------------------------------------------


def _denominator(piles: Piles) -> State:
    s = np.concatenate(piles)
    return float(s.max()), float(np.exp(s - s.max()).sum())


def _denominator_walk(piles: Piles, **flags: Any) -> State:
    m, _, l_sum, _ = _walk(piles, [np.zeros((len(s), 1)) for s in piles], **flags)[0][-1]
    return m, l_sum


def _sum_of_means(piles: Piles) -> State:
    m, _ = _denominator(piles)
    return m, float(sum(np.exp(s - m).mean() for s in piles))


def _smallest(piles: Piles) -> State:
    s = np.concatenate(piles)
    return float(s.min()), float(np.exp(s - s.min()).sum())


def _last_pile_only(piles: Piles) -> State:
    m, _ = _denominator(piles)
    return m, float(np.exp(piles[-1] - m).sum())


_MANY = "16 piles of 1024 scores, memory measured"


def _many(rng: Generator) -> tuple[Piles, Piles]:
    """Return piles so long that joining them shows in memory; each has values of its own size."""
    piles = [rng.uniform(j / 4 - 3, j / 4, 1024) for j in range(16)]
    return piles, [rng.uniform(j, j + 5, (1024, 1)) for j in range(16)]


def _one_pile_at_a_time(judge: Judge) -> Judge:
    """Return ``judge``, and after it a look at the memory that a counted case took."""

    def judged(case: Case, observed: Observed, expected: Any) -> Finding | None:
        if isinstance(observed.ledger, str):
            return Finding("signature", observed.ledger)
        finding = judge(case, observed, expected)
        row = sum(s.nbytes for s in case.args[0])
        if finding or not case.counted or observed.ledger <= row // 2:
            return finding
        return Finding(
            "one pile at a time",
            f"the answer is right, but your function held {observed.ledger / 1e3:.0f} kB at once; "
            f"all scores of the row are {row / 1e3:.0f} kB. Do not join the piles: look at one, "
            "change the notes, forget it.",
        )

    return judged


def _denominator_cases(rng: Generator) -> list[Case]:
    tops = {
        "three piles whose maxima rise": [0, 2, 4],
        "four piles, the largest score in the first": [5, 3, 4, 2],
        "five piles of scores near +1000": [1000, 1002, 1001, 1003, 999],
        "scores near -800": [-802, -800, -801],
        "scores that fall from +900 to -900": [900, 0, -900],
    }
    return [
        Case("piles [1, 3] and [2, 5]", ([_LOW, _HIGH],)),
        Case("piles [2, 5] and [1, 3]", ([_HIGH, _LOW],)),
        *[Case(name, (_drawn(rng, how, d=1)[0],)) for name, how in tops.items()],
        Case(_MANY, (_many(rng)[0],), counted=True),
    ]


STREAM_DENOMINATOR = Exercise(
    id="3.2",
    function="stream_denominator",
    signature="(piles)",
    title="The denominator, pile by pile",
    minutes=8,
    points=2,
    hints=(
        "Two notes on the desk: m starts at -inf, l_sum at 0. Each pile changes both.",
        "m_new is the larger of m and the maximum of the pile. l_sum was measured against m: "
        "bring it to m_new before you add.",
        "l_sum = exp(m - m_new) * l_sum + the sum of exp(s - m_new). Then m = m_new.",
    ),
    cases=_denominator_cases,
    truth=_denominator,
    judge=_one_pile_at_a_time(lambda _, *seen: _judge_state(("m", "l_sum"), *seen)),
    run=with_peak,
    notice="Two numbers stand for a row of any length. That row never has to be in one place.",
    mistakes=(
        Mistake(
            "l_sum is not rescaled",
            "the old l_sum was measured against the old maximum: multiply it by exp(m - m_new) "
            "before you add the new pile.",
            lambda piles: _denominator_walk(piles, rescale_l=False),
        ),
        Mistake(
            "only the last pile is counted",
            "add to what came before. If you do, then alpha is always 0: is the loop's m = m_new "
            "missing?",
            _last_pile_only,
        ),
        Mistake(
            "only the first pile is counted",
            "is the `return` inside the loop?",
            lambda piles: _denominator(piles[:1]),
        ),
        Mistake(
            "no maximum is subtracted",
            "exp(score) is taken as it is. exp(1000) is too large for a float: subtract the "
            "maximum.",
            lambda piles: (_denominator(piles)[0], float(np.exp(np.concatenate(piles)).sum())),
        ),
        Mistake(
            "exp(+inf) in the first pile",
            "m is still -inf there, so exp(s - m) is infinite: measure scores against m_new.",
            lambda piles: (_denominator(piles)[0], np.inf),
        ),
        Mistake(
            "the minimum is taken",
            "every exponential would be 1 or more, and overflow: take the maximum.",
            _smallest,
        ),
        Mistake(
            "the mean of a pile, not its sum",
            "l_sum is the sum of all exponentials: .sum(), not .mean().",
            _sum_of_means,
        ),
        Mistake(
            "lse in place of l_sum",
            "this is m + ln(l_sum), the log-sum-exp: return the sum itself.",
            lambda piles: (_denominator(piles)[0], float(np.logaddexp.reduce(np.hstack(piles)))),
        ),
        Mistake(
            "the two values are exchanged",
            "return m first, then l_sum.",
            lambda piles: _denominator(piles)[::-1],
        ),
        *[
            Mistake(name, says, lambda piles, flags=flags: _denominator_walk(piles, **flags))
            for name, says, flags in _STREAM_MISTAKES
        ],
    ),
)


def _judge_state(names: tuple[str, ...], observed: Observed, expected: State) -> Finding | None:
    """Judge a state, each number under its name, to one part in a million."""
    got = observed.result
    if fault := faults.find_fault(got, tuple(np.asarray(x) for x in expected)):
        return fault
    for name, one, wanted in zip(names, got, expected, strict=True):
        if finding := array_finding(one, np.asarray(wanted, dtype=np.float64), name=name):
            return finding
    return None


# --- 3.3 ----------------------------------------------------------------------------------------


def _average_cases(rng: Generator) -> list[Case]:
    holes = _drawn(rng, [1, 3, 2], d=3)
    for s in holes[0]:
        s[s.argmin()] = -np.inf  # some keys of a pile are masked, never its largest
    none = -np.inf
    drawn: dict[str, tuple[list[float], int]] = {
        "three piles whose maxima rise": ([0, 2, 4], 3),
        "four piles, the largest score in the first": ([5, 3, 4, 2], 2),
        "scores near +1000": ([1000, 1002, 1001], 2),
        "scores near -800": ([-802, -800, -801], 3),
        "scores that fall from +900 to -900": ([900, 0, -900], 2),
        "a pile without any key in the middle (all its scores are -inf)": ([1, none, 3], 2),
        "a pile without any key at the front (all its scores are -inf)": ([none, 2, 1], 3),
    }
    return [
        Case("piles [1, 3] and [2, 5] with values 10, 20 and 30, 40", _ORDERS["first"]),
        Case("the same piles, [2, 5] first", _ORDERS["reversed"]),
        *[Case(name, _drawn(rng, *how)) for name, how in drawn.items()],
        Case("three piles in which some keys are masked (score -inf)", holes),
        Case(_MANY, _many(rng), counted=True),
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
    judge=_one_pile_at_a_time(within(1e-6)),
    run=with_peak,
    notice="Your loop never held more than one pile, and the answer is that of the whole row. "
    "Give it tiles instead of piles and a block of queries instead of one: that is FlashAttention.",
    mistakes=(
        Mistake(
            "only the last pile is counted",
            "add to what came before. If you do: is the loop's m = m_new missing, so that alpha is "
            "always 0? Or is the new pile multiplied by alpha as well?",
            lambda piles, values: _together(piles[-1:], values[-1:]),
        ),
        *[Mistake(name, says, _averaging(flags)) for name, says, flags in _STREAM_MISTAKES],
        Mistake(
            "masked keys count as score 0",
            "a score of -inf has weight 0, and exp(0) is 1: leave -inf as it is.",
            lambda piles, values: _together(
                [np.where(np.isneginf(s), 0, s) for s in piles], values
            ),
        ),
        Mistake(
            "the mean of the piles' averages",
            "each pile gets the same say, however small its scores are. Piles must be weighed "
            "against each other.",
            _mean_of_averages,
        ),
        Mistake(
            "only the first pile is counted",
            "is the `return` inside the loop?",
            lambda piles, values: _together(piles[:1], values[:1]),
        ),
    ),
)


# --- 3.4 ----------------------------------------------------------------------------------------


def _state(s: np.ndarray, v: np.ndarray) -> State:
    """Return the state (m, l_sum, o) of one pile: two floats and an array (d,)."""
    m = s.max(initial=-np.inf)
    p = np.exp(s - finite_max(m))
    return float(m), float(p.sum()), p @ v


def _merge(
    a: State,
    b: State,
    *,
    rescale: tuple[bool, bool] = (True, True),
    rescale_o: bool = True,
    rescale_l: bool = True,
    invert: bool = False,
    exchange: bool = False,
    use: Any = np.maximum,
    guard: bool = True,
) -> State:
    """Return both states as one, as somebody with the named mistake writes it."""
    m = use(a[0], b[0])
    base = finite_max(m) if guard else m
    factors = []
    for (m_old, _, _), wanted in zip((a, b), rescale, strict=True):
        shift = np.float64(base - m_old if invert else m_old - base)
        factors.append(np.exp(shift) if wanted else np.float64(1))
    f_a, f_b = factors[::-1] if exchange else factors
    o = f_a * a[2] + f_b * b[2] if rescale_o else a[2] + b[2]
    return m, f_a * a[1] + f_b * b[1] if rescale_l else a[1] + b[1], o


def _merge_averages(a: State, b: State) -> State:
    """Return what comes out if o is taken for an average that is already divided."""
    m, l_sum, _ = _merge(a, b)
    w_a, w_b = (x[1] * np.exp(x[0] - finite_max(m)) for x in (a, b))
    return m, l_sum, (w_a * a[2] + w_b * b[2]) / l_sum


def _merge_and_divide(a: State, b: State) -> State:
    m, l_sum, o = _merge(a, b)
    return m, l_sum, o / l_sum


def _reduce(merge: Any, states: list[State], how: str) -> State:
    """Merge all states into one: "left", "right" (from the last backwards) or as a "tree"."""
    if how == "right":
        return functools.reduce(lambda done, state: merge(state, done), states[::-1])
    while how == "tree" and len(states) > 1:
        pairs = [states[i : i + 2] for i in range(0, len(states), 2)]
        states = [merge(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return functools.reduce(merge, states)


def _run_merge(function: Any, case: Case) -> Observed:
    """Merge the case's states with the student's function; ``return a`` itself is allowed."""
    with np.errstate(all="ignore"):
        result = function(*copy.deepcopy(case.args[0][:2]))
        like = tuple(np.asarray(x) for x in case.args[0][0])
        if faults.find_fault(result, like) is None:  # else one call tells enough
            result = _reduce(function, *case.args)
    return Observed(copy.deepcopy(result) if isinstance(result, tuple | list) else result)


def _merge_cases(rng: Generator) -> list[Case]:
    def states(*tops: float, d: int = 2) -> list[State]:
        return [_state(s, v) for s, v in zip(*_drawn(rng, list(tops), d), strict=True)]

    none = (-np.inf, 0.0, np.zeros(2))
    many = [*states(3, -2, 6), none, *states(0, 5, 1)]
    shuffled = [many[i] for i in rng.permutation(len(many))]
    hand = [_state(_LOW, _V_LOW), _state(_HIGH, _V_HIGH)]
    return [
        # in this order each one-sided mistake (m of a, of b, the smaller) leaves another m
        Case("four states, the largest maximum in the second", (states(2, 4, 1, 3), "left")),
        Case("the states of piles [1, 3] and [2, 5]", (hand, "left")),
        Case("the same two, exchanged", (hand[::-1], "left")),
        Case("b has the larger maximum, d = 3", (states(1, 4, d=3), "left")),
        Case("a has the larger maximum, d = 3", (states(4, 1, d=3), "left")),
        Case("the maxima are +900 and -900", (states(900, -900), "left")),
        Case("the maxima are -900 and -901", (states(-900, -901), "left")),
        Case("b is the state of no keys at all, (-inf, 0, zeros)", ([*states(2), none], "left")),
        Case("a is the state of no keys at all, (-inf, 0, zeros)", ([none, *states(2)], "left")),
        Case("a and b are both fully masked, (-inf, 0, zeros)", ([none, none], "left")),
        Case("seven states, one of them without keys, from the left", (many, "left")),
        Case("the same seven from the right: merge is associative", (many, "right")),
        Case("the same seven as a tree, in pairs", (many, "tree")),
        Case("the same seven shuffled: merge is commutative", (shuffled, "left")),
    ]


_MERGE_MISTAKES: tuple[tuple[str, str, Any], ...] = (
    (
        "nothing is rescaled",
        "the sums are added as they are, though they were measured against different maxima.",
        functools.partial(_merge, rescale=(False, False)),
    ),
    (
        "only a is rescaled",
        "b is added as it is. In a loop the new pile is measured against m_new already; here b "
        "comes with its own maximum, so both sides need a factor.",
        functools.partial(_merge, rescale=(True, False)),
    ),
    (
        "only b is rescaled",
        "the state a is added as it is: both sides need a factor.",
        functools.partial(_merge, rescale=(False, True)),
    ),
    (
        "O is not rescaled",
        "l_sum is rescaled and o is not: both need the same factors.",
        functools.partial(_merge, rescale_o=False),
    ),
    (
        "l_sum is not rescaled",
        "o is rescaled and l_sum is not: both need the same factors.",
        functools.partial(_merge, rescale_l=False),
    ),
    (
        "the factors are exchanged",
        "each side's factor comes from its own maximum: exp(m_a - m) belongs to a.",
        functools.partial(_merge, exchange=True),
    ),
    (
        "m is a log-sum-exp",
        "m is the larger of the two maxima, a score that exists; l_sum already holds the sum.",
        functools.partial(_merge, use=np.logaddexp),
    ),
    (
        "the smaller maximum is taken",
        "m must be the larger of the two maxima, else the factors overflow.",
        functools.partial(_merge, use=np.minimum),
    ),
    (
        "m is taken from a",
        "the new m must be the larger of the two maxima, whichever side it is on.",
        functools.partial(_merge, use=lambda a, b: a),
    ),
    (
        "m is taken from b",
        "the new m must be the larger of the two maxima, whichever side it is on.",
        functools.partial(_merge, use=lambda a, b: b),
    ),
    (
        "a pile without keys gives NaN",
        "both maxima are -inf and -inf - (-inf) is NaN. As long as no key was seen, subtract 0 "
        "instead of m.",
        functools.partial(_merge, guard=False),
    ),
    (
        "o is divided inside merge",
        "the o of a state is a sum, not an average: merge sums, divide at the very end.",
        _merge_averages,
    ),
    (
        "o is divided inside merge",
        "the o of a state is a sum, not an average: merge sums, divide at the very end.",
        _merge_and_divide,
    ),
    (
        "m becomes 0 where no key was seen",
        "subtract 0 in the factors, but return m = -inf: the state of no keys stays as it is.",
        lambda a, b: (finite_max(_merge(a, b)[0]), *_merge(a, b)[1:]),
    ),
    (
        "alpha is inverted",
        "the factors are exp(m - m_old): they must be exp(m_old - m), never above 1.",
        functools.partial(_merge, invert=True),
    ),
)

MERGE = Exercise(
    id="3.4",
    function="merge",
    signature="(a, b)",
    title="Merge two states, in any order",
    minutes=10,
    points=4,
    hints=(
        "Neither side is new: each sum was measured against its own maximum. Both need a factor.",
        "The factors are exp(m_a - m) and exp(m_b - m) with m = max(m_a, m_b). The same factor "
        "for l_sum and o of one side.",
        "Set base = 0.0 if m == -inf else m, and subtract base in both factors. The m that you "
        "return stays -inf.",
    ),
    cases=_merge_cases,
    truth=functools.partial(_reduce, _merge),
    judge=lambda case, observed, expected: _judge_state(("m", "l_sum", "o"), observed, expected),
    run=_run_merge,
    notice="Order and grouping do not matter, and no keys at all is a state like any other. So "
    "the keys of a row may lie in many tiles, thread blocks or devices: their states still merge.",
    mistakes=tuple(
        Mistake(name, says, functools.partial(_reduce, wrong))
        for name, says, wrong in _MERGE_MISTAKES
    ),
)


# --- 3.5 ----------------------------------------------------------------------------------------

# the three broken versions that the notebook gives, as flags of _walk
_BROKEN: dict[str, dict[str, Any]] = {
    "forgets_to_rescale_o": {"rescale_o": False},
    "uses_own_maximum": {"own_max": True},
    "starts_at_zero": {"start": 0.0},
}
_VISIBLE = 1e-3  # times the largest value: a difference that nobody takes for rounding


def _judge_inputs(case: Case, observed: Observed, expected: Any) -> Finding | None:
    parsed = _legal(observed.result)
    if isinstance(parsed, Finding):
        return parsed
    truth = _together(*parsed)
    largest = max(np.abs(v).max() for v in parsed[1])
    lines, missed = [], 0
    for name, flags in _BROKEN.items():
        with np.errstate(all="ignore"):
            wrong = _walk(*parsed, **flags)[1]
        exposed = not np.all(np.abs(wrong - truth) <= _VISIBLE * largest)
        missed += not exposed
        lines.append(
            f"{name}: {'exposed' if exposed else 'NOT exposed'}, "
            f"it gives {_short(wrong)} and the truth is {_short(truth)}"
        )
    if not missed:
        return None
    says = f"your inputs are legal, but {missed} of the 3 broken versions still look right on them."
    return Finding("exposes all three", says, "\n".join(lines))


def _short(x: np.ndarray) -> str:
    return np.array2string(x, precision=4, separator=", ", threshold=4)


def _legal(result: Any) -> tuple[Piles, Piles] | Finding:
    """Return the student's piles and values as arrays, or what is wrong with them."""
    if fault := faults.find_fault(result, (None, None)):
        return fault
    piles, values = result
    try:
        piles = [np.asarray(s, dtype=np.float64) for s in piles]
        values = [np.asarray(v, dtype=np.float64) for v in values]
    except (TypeError, ValueError):
        return Finding("legal inputs", "piles and values are lists of arrays of numbers.")
    if not 2 <= len(piles) <= 8 or len(values) != len(piles):
        says = "give 2 to 8 piles, and one array of values for each; there are"
        return Finding("legal inputs", f"{says} {len(piles)} piles and {len(values)} values.")
    for j, (s, v) in enumerate(zip(piles, values, strict=True)):
        if s.ndim != 1 or not 1 <= s.size <= 8:
            says = f"pile {j} has shape {s.shape}: give 1 to 8 scores, shape (n,)."
            return Finding("legal inputs", says)
        if v.ndim != 2 or v.shape[0] != s.size or v.shape[1:] != values[0].shape[1:] or not v.size:
            says = (
                f"the values of pile {j} have shape {v.shape}: give ({s.size}, d), one d for all."
            )
            return Finding("legal inputs", says)
        if not (np.isfinite(s).all() and np.isfinite(v).all()):
            return Finding("legal inputs", f"pile {j} holds a number that is not finite.")
        if max(abs(s).max(), abs(v).max()) > 1e6:
            return Finding("legal inputs", f"pile {j} holds a number beyond a million.")
    return piles, values


EXPOSING_INPUTS = Exercise(
    id="3.5",
    function="exposing_inputs",
    signature="()",
    title="Write inputs that expose three broken versions",
    minutes=10,
    points=4,
    hints=(
        "Ask of each version: on which inputs is its mistake without effect? Then avoid those.",
        "Forgetting the rescale shows when a later pile raises the maximum. A pile's own maximum "
        "shows when a later pile does not. You need three piles.",
        "A start at 0 shows when exp of every score is 0 in float64, so all scores must lie below "
        "-745. Take maxima such as -1000, then higher, then lower, and values that differ.",
    ),
    cases=lambda _rng: [Case("")],
    truth=lambda: None,
    judge=_judge_inputs,
    notice="This is how the checks of this course are made: ask what each mistake cannot survive, "
    "and put that into the inputs.",
    kind="question",
)

EXERCISES = (BY_HAND, STREAM_DENOMINATOR, STREAM_AVERAGE, MERGE, EXPOSING_INPUTS)
