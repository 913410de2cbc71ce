"""Exercise 3.4: merge two states, in any order."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial, reduce
from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator

from course_lib.attention.online_softmax import OnlineState, finite_max
from course_lib.attention.slips import LN_2
from course_lib.judging.cases import CREEP, FAR_BELOW, FARTHEST
from course_lib.judging.faults import find_fault
from course_lib.judging.finding import Finding
from course_lib.judging.misconceptions import BASES, LEFT_OUT, ZERO_AT_LEAST
from course_lib.judging.spec import HARD, Case, Exercise, Mistake, Observed, table
from course_lib.judging.tolerance import in_double
from course_lib.specs.lesson_03.piles import (
    FAINT_NAME,
    HIGH,
    LOW,
    V_HIGH,
    V_LOW,
    Piles,
    State,
    drawn,
    faint,
    far_apart,
    judge_state,
    related,
)


def _state(s: np.ndarray, v: np.ndarray) -> State:
    """Return the state (m, l_sum, o) of one pile: two floats and an array (d,)."""
    state = OnlineState.from_tile(s, v)
    return float(state.m), float(state.l_sum), state.o


def _merge(
    a: State,
    b: State,
    *,
    rescale: tuple[bool, bool] = (True, True),
    rescale_o: bool = True,
    rescale_l: bool = True,
    invert: bool = False,
    exchange: bool = False,
    powers: tuple[float, float] = (1.0, 1.0),
    use: Any = np.maximum,
    guard: bool = True,
) -> State:
    """Return both states as one, as somebody with the named mistake writes it."""
    m = use(a[0], b[0])
    base = finite_max(m) if guard else m
    factors = []
    for (m_old, _, _), wanted, power in zip((a, b), rescale, powers, strict=True):
        shift = np.float64(base - m_old if invert else m_old - base) * power
        factors.append(np.exp(shift) if wanted else np.float64(1))
    f_a, f_b = factors[::-1] if exchange else factors
    o = f_a * a[2] + f_b * b[2] if rescale_o else a[2] + b[2]
    return m, f_a * a[1] + f_b * b[1] if rescale_l else a[1] + b[1], o


def _merge_averages(a: State, b: State) -> State:
    """Return what comes out if o is taken for an average that is already divided."""
    m, l_sum, _ = _merge(a, b)
    w_a, w_b = (x[1] * np.exp(x[0] - finite_max(m)) for x in (a, b))
    return m, l_sum, (w_a * a[2] + w_b * b[2]) / l_sum


def _merge_as_lse(a: State, b: State) -> State:
    """Return what comes out if the log-sum-exp stands in place of m, and 1 in that of the sum."""
    m, l_sum, o = _merge(a, b)
    return float(m + np.log(l_sum)), 1.0, o / l_sum


def _merge_weighed_twice(a: State, b: State) -> State:
    """Return what comes out if each o is multiplied by its l_sum, as if it were an average."""
    return (*_merge(a, b)[:2], _merge(*((m, n, n * o) for m, n, o in (a, b)))[2])


def _merge_by_m(a: State, b: State, *, averages: bool = False) -> State:
    """Return what comes out if exp(m_a - m) is a's share of o, or of both ``averages``."""
    m, l_sum, _ = _merge(a, b)
    f_a, f_b = (np.exp(x[0] - finite_max(m)) for x in (a, b))
    o_a, o_b = (l_sum * x[2] / (x[1] or 1) if averages else x[2] for x in (a, b))
    return m, l_sum, (f_a * o_a + f_b * o_b) / (f_a + f_b or 1)


def _merge_if_far(a: State, b: State, *, near: Callable[[float, float], Any]) -> State:
    """Return both states as one, added as they are where their maxima are ``near``."""
    m, l_sum, o = _merge(a, b)
    return (m, a[1] + b[1], a[2] + b[2]) if near(a[0], b[0]) else (m, l_sum, o)


def _merge_near_alone(a: State, b: State, *, within: float) -> State:
    """Return both states as one, or the higher one where the other is not ``within`` its reach."""
    return _merge(a, b) if abs(a[0] - b[0]) <= within else max(a, b, key=lambda state: state[0])


def _merge_and_divide(a: State, b: State) -> State:
    m, l_sum, o = _merge(a, b)
    return m, l_sum, o / l_sum


def _merge_unless(a: State, b: State, empty: Callable[[State], Any]) -> State:
    """Return both states as one, or the other one if one is taken for the state of no keys."""
    return b if empty(a) else a if empty(b) else _merge(a, b)


def _is_below(low: float, state: State) -> bool:
    return bool(state[0] < low)


def _reduce(merge: Any, states: list[State], how: str) -> State:
    """Merge all states into one: "left", "right" (from the last backwards) or as a "tree".

    "itself": the first with itself, the very same object.
    """
    if how == "itself":
        return merge(states[0], states[0])
    if how == "right":
        return reduce(lambda done, state: merge(state, done), states[::-1])
    while how == "tree" and len(states) > 1:
        pairs = [states[i : i + 2] for i in range(0, len(states), 2)]
        states = [merge(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return reduce(merge, states)


def _run_merge(function: Any, case: Case) -> Observed:
    """Merge the case's states with the student's function; ``return a`` itself is allowed."""
    with np.errstate(all="ignore"):
        result = function(*copy.deepcopy(case.args[0][:2]))
        like = tuple(np.asarray(x) for x in case.args[0][0])
        if find_fault(result, like) is None:  # else one call tells enough
            result = _reduce(function, *case.args)
    return Observed(copy.deepcopy(result) if isinstance(result, tuple | list) else result)


def _shown(case: Case) -> dict[str, Any]:
    """Return the states of a case by what they are to the student's function."""
    states, how = case.args
    if how == "itself":
        return {"a, and b as well": states[0]}
    if len(states) == 2:
        return dict(zip("ab" if how != "right" else "ba", states, strict=True))
    return {f"states, merged {'as a tree' if how == 'tree' else f'from the {how}'}": states}


def _merge_cases(rng: Generator) -> list[Case]:
    def states(*tops: float, d: int = 2) -> list[State]:
        return states_of(drawn(rng, list(tops), d))

    def states_of(drawn: tuple[Piles, Piles]) -> list[State]:
        return [_state(s, v) for s, v in zip(*drawn, strict=True)]

    def unvalued(top: float) -> State:
        (m, l_sum, o) = states(top)[0]
        return m, l_sum, 0 * o

    def small(top: float) -> State:
        m, l_sum, o = states(top, d=5)[0]
        return m, l_sum, 1e-9 * o

    def heavy(below: float) -> list[State]:
        """Return the state of a few keys, and that of many which lie so far below them."""
        few, (m, l_sum, o) = states(0, -below, d=5)
        return [few, (m, np.exp(below) * l_sum, np.exp(below) * o)]

    none, one = (-np.inf, 0.0, np.zeros(2)), states(2)
    many = [*states(3, -2, 6), none, *states(0, 5, 1)]
    shuffled = [many[i] for i in rng.permutation(len(many))]
    hand = [_state(LOW, V_LOW), _state(HIGH, V_HIGH)]
    single = [_state(LOW[:1], V_LOW[:1]), _state(HIGH[:1], V_HIGH[:1])]
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
        Case("both maxima are 3", (states(3, 3), "left")),
        Case("a and b hold one key each", (single, "left")),
        *_equal_in_part(),
        Case("both maxima are 0, d = 1", (states(0, 0, d=1), "left")),
        Case("a state merged with itself: its keys count twice", (2 * one, "itself")),
        Case("the maxima are 0 and -2", (states(0, -2), "left")),
        Case("the maxima are 0.0005 and -1", (states(5e-4, -1), "left")),
        Case("the values of a are 0", ([unvalued(1), *states(2)], "left")),
        Case("the values of b are 0", ([*states(2), unvalued(1)], "left")),
        *(
            Case(f"the maxima are {a:g} and {b:g}", (states(a, b), "left"))
            for a, b in ((FAR_BELOW, FAR_BELOW + 1), (FAR_BELOW, -np.inf), (-np.inf, FAR_BELOW))
        ),
        *(
            Case(f"the maxima are {a:g} and {b:g}", (states(a, b), "left"))
            for far in (-1e6, FARTHEST, -1e300)  # no number stands for -inf
            for a, b in ((far, far), (far, -np.inf), (-np.inf, far), (2 * far, far))
        ),
        *(
            Case(f"{FAINT_NAME}, from the {how}", (states_of(faint(rng)), how))
            for how in ("left", "right")
        ),
        *(
            Case(f"{what} lies {below:g} below the other and holds as much", (two[::step], "left"))
            for below in (8.5, 12.5, 25)
            for two in [heavy(below)]
            for what, step in (("b", 1), ("a", -1))
        ),
        *(
            Case(f"states of {name}, from the {how}", (states_of((piles, values)), how))
            for name, piles, values in (*far_apart(rng), *related(rng))
            if len(piles) > 1
            for how in ("left", "right", "tree")
        ),
        Case("values near 1e-9", ([small(1), small(2)], "left")),
        Case("seven states, one of them without keys, from the left", (many, "left")),
        Case("the same seven from the right: merge is associative", (many, "right")),
        Case("the same seven as a tree, in pairs", (many, "tree")),
        Case("the same seven shuffled: merge is commutative", (shuffled, "left")),
        *(
            Case(f"the maxima are {a:g} and {b:g}", (states(a, b), "left"))
            for a, b in ((0, CREEP), (CREEP, 0), (900, 900.005))  # too near to be worth a factor?
        ),
    ]


def _equal_in_part() -> list[Case]:
    """Return two states that are equal in some of m, l_sum and o, or in all: each counts still."""
    first, other = (2.0, 1.0, np.array([10.0])), (3.0, 1.5, np.array([20.0]))
    cases = []
    for equal in product((False, True), repeat=3):
        second = tuple(a if same else b for same, a, b in zip(equal, first, other, strict=True))
        names = [name for same, name in zip(equal, ("m", "l_sum", "o"), strict=True) if same]
        for also, pair in (("", [first, second]), (", exchanged", [second, first])):
            says = f"two states equal in {', '.join(names) or 'nothing'}{also}"
            cases.append(Case(says, (pair, "left")))
    return cases


def _judge_merged(case: Case, observed: Observed, expected: State) -> Finding | None:
    """Judge a state; what is merged with no keys alone is changed in nothing, not in any digit."""
    states = case.args[0]
    ms = np.array([m for m, _, _ in states])
    unchanged = np.isfinite(ms).sum() <= 1
    names = ("m", "l_sum", "o")
    return judge_state(names, observed, expected, 1e-12 if unchanged else in_double(ms))


_UP_TO = (10.0, 12.0, 15.0, 20.0, 30.0, 40.0, 50.0, 80.0, 88.0, 100.0)
_MERGES = table(
    ("nothing is rescaled",
     "the sums are added as they are, though they were measured against different maxima.",
     partial(_merge, rescale=(False, False))),
    ("only a is rescaled",
     "b is added as it is. In a loop the new pile is measured against m_new already; here b comes "
     "with its own maximum, so both sides need a factor.",
     partial(_merge, rescale=(True, False))),
    ("only b is rescaled", "the state a is added as it is: both sides need a factor.",
     partial(_merge, rescale=(False, True))),
    ("O is not rescaled", "l_sum is rescaled and o is not: both need the same factors.",
     partial(_merge, rescale_o=False)),
    ("l_sum is not rescaled", "o is rescaled and l_sum is not: both need the same factors.",
     partial(_merge, rescale_l=False)),
    ("the factors are exchanged",
     "each side's factor comes from its own maximum: exp(m_a - m) belongs to a.",
     partial(_merge, exchange=True)),
    ("m is a log-sum-exp",
     "m is the larger of the two maxima, a score that exists; l_sum already holds the sum.",
     partial(_merge, use=np.logaddexp), _merge_as_lse),
    ("l_sum is taken for a logarithm",
     "a state's second number is the sum of the exponentials, not its logarithm: multiply it by "
     "the factor, and add.",
     lambda a, b: (
         _merge(a, b)[0],
         np.logaddexp(a[1] + a[0] - max(a[0], b[0]), b[1] + b[0] - max(a[0], b[0])),
         _merge(a, b)[2])),
    ("the smaller maximum is taken",
     "m must be the larger of the two maxima, else the factors overflow.",
     partial(_merge, use=np.minimum)),
    (ZERO_AT_LEAST,
     "m never falls below some number here, 0 or another: where both maxima lie far below, every "
     "factor vanishes.",
     partial(_merge, use=lambda a, b: np.maximum(np.maximum(a, b), 0.0))),
    (BASES, "one factor is a power of 2, the other a power of e: exp in both.",
     *(partial(_merge, powers=powers) for powers in ((LN_2, 1.0), (1.0, LN_2), (LN_2, LN_2)))),
    ("one factor is upside down",
     "the factors are exp(m_a - m) and exp(m_b - m), never above 1: one of them is exp(m - m_old).",
     *(partial(_merge, powers=powers) for powers in ((-1.0, 1.0), (1.0, -1.0)))),
    *((f"m is taken from {name}",
       "the new m must be the larger of the two maxima, whichever side it is on.",
       partial(_merge, use=use))
      for name, use in (("a", lambda a, b: a), ("b", lambda a, b: b))),
    ("a pile without keys gives NaN",
     "both maxima are -inf and -inf - (-inf) is NaN. As long as no key was seen, subtract 0 "
     "instead of m.",
     partial(_merge, guard=False)),
    ("o is taken for an average inside merge",
     "the o of a state is a sum, not an average: it is multiplied by its factor, not by its l, nor "
     "divided by one, and the division comes at the very end.",
     _merge_averages, _merge_and_divide, _merge_weighed_twice),
    ("m becomes 0 where no key was seen",
     "subtract 0 in the factors, but return m = -inf: the state of no keys stays as it is.",
     lambda a, b: (finite_max(_merge(a, b)[0]), *_merge(a, b)[1:])),
    ("one of two equal maxima is lost",
     "where both maxima are the same, none of the two states may be dropped: both factors are 1 "
     "then.",
     lambda a, b: a if a[0] == b[0] else _merge(a, b),
     lambda a, b: b if a[0] == b[0] else _merge(a, b),
     lambda a, b: a if a[:2] == b[:2] else _merge(a, b),
     lambda a, b: b if a[:2] == b[:2] else _merge(a, b)),
    ("a state is taken for that of no keys",
     "only m = -inf (or l_sum = 0) says that no key was seen. Values may be 0, and a maximum may "
     "be very negative.",
     partial(_merge_unless, empty=lambda state: not np.any(state[2])),
     partial(_merge_unless, empty=lambda state: not state[0]),
     *(partial(_merge_unless, empty=partial(_is_below, low))
       for low in (-1e3, -1e4, -1e5, -1e6, -1e9, -1e30))),
    ("alpha is inverted",
     "the factors are exp(m - m_old): they must be exp(m_old - m), never above 1.",
     partial(_merge, invert=True)),
    ("states are weighed by m alone",
     "exp(m_a - m) is what a sum is multiplied by, no share: how many keys a state stands for is "
     "in its l_sum. Add the two products, and divide nothing.",
     _merge_by_m, partial(_merge_by_m, averages=True)),
    ("near maxima count as equal",
     "both factors are 1 where the maxima are the same, and nowhere else: a small difference is "
     "worth a factor, too.",
     *(partial(_merge_if_far, near=near) for near in (
         np.isclose, lambda a, b: abs(a - b) < 0.1, lambda a, b: abs(a - b) < 0.01,
         lambda a, b: a <= b < a + 0.01))),
    (LEFT_OUT,
     "the state whose maximum lies far below is dropped, though its l_sum or its o may be as much "
     "larger: multiply by its factor, however small that is.",
     *(partial(_merge_near_alone, within=within) for within in _UP_TO)),
)  # fmt: skip


MERGE = Exercise.of(
    "3.4",
    cases=_merge_cases,
    truth=partial(_reduce, _merge),
    judge=_judge_merged,
    run=_run_merge,
    inputs=_shown,
    spared=dict.fromkeys(HARD, "its inputs are states, whose maxima are given"),
    mistakes=tuple(Mistake(name, says, partial(_reduce, wrong)) for name, says, wrong in _MERGES),
)
