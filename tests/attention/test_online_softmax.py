"""The online-softmax state: by hand, as a commutative monoid, and with nothing to see."""

from __future__ import annotations

import math
import warnings
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention import OnlineState

fast = settings(max_examples=60, deadline=None)
score = st.one_of(st.floats(-200, 200), st.just(-math.inf))


@pytest.fixture(autouse=True)
def _no_warning_is_swallowed():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@st.composite
def piles(draw, count):
    """``count`` states of 3 rows each, some rows masked, some piles empty."""
    states = []
    for _ in range(count):
        n = draw(st.integers(0, 4))
        rows = draw(st.lists(st.lists(score, min_size=n, max_size=n), min_size=3, max_size=3))
        values = draw(st.lists(st.tuples(*[st.floats(-100, 100)] * 2), min_size=n, max_size=n))
        scores = np.array(rows, float).reshape(3, n)
        states.append(OnlineState.from_tile(scores, np.array(values, float).reshape(n, 2)))
    return states


def assert_same(a: OnlineState, b: OnlineState) -> None:
    """Equal to rounding, and free of NaN (NaN would compare equal to NaN here)."""
    for x, y in ((a.m, b.m), (a.l_sum, b.l_sum), (a.o, b.o)):
        assert not np.isnan(x).any()
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-10)


def test_by_hand():
    """Scores [1, 3 | 2, 5], values 10, 20 | 30, 40: every number of the lesson, both orders."""
    first = OnlineState.from_tile([1.0, 3.0], [[10.0], [20.0]])
    second = OnlineState.from_tile([2.0, 5.0], [[30.0], [40.0]])
    assert (first.m, round(first.l_sum, 3)) == (3, 1.135)
    assert (second.m, round(second.l_sum, 5)) == (5, 1.04979)
    for state in (first.merge(second), second.merge(first)):
        o, lse = state.finalize()
        assert state.m == 5
        assert state.l_sum == pytest.approx(1.20344, abs=5e-6)
        assert o[0] == pytest.approx(36.88, abs=5e-3)
        assert lse == pytest.approx(5 + math.log(1.20344), abs=5e-6)


@fast
@given(piles(3))
def test_merge_is_associative(states):
    a, b, c = states
    assert_same(a.merge(b).merge(c), a.merge(b.merge(c)))


@fast
@given(piles(2))
def test_merge_is_commutative(states):
    a, b = states
    assert_same(a.merge(b), b.merge(a))


@fast
@given(piles(1))
def test_no_keys_is_the_identity(states):
    (a,) = states
    nothing = OnlineState.identity((3,), 2)
    assert_same(a.merge(nothing), a)
    assert_same(nothing.merge(a), a)
    assert_same(nothing.merge(nothing), nothing)


@fast
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 12), max_size=4))
def test_any_split_into_piles_gives_the_softmax(seed, cuts):
    """Cut 12 keys anywhere (empty piles too), mask some: the all-at-once answer comes out."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 40, (2, 5, 12))
    scores[rng.random(scores.shape) < 0.3] = -np.inf
    scores[:, 0, 1:] = -np.inf  # one key only
    scores[:, :, 0] = rng.normal(0, 40, (2, 5))
    values = rng.normal(size=(2, 12, 3))
    bounds = pairwise([0, *sorted(cuts), 12])
    states = [OnlineState.from_tile(scores[..., a:b], values[:, a:b]) for a, b in bounds]
    o, lse = reduce(OnlineState.merge, states).finalize()
    e = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(o, e / e.sum(-1, keepdims=True) @ values, atol=1e-12)
    np.testing.assert_allclose(lse, scores.max(-1) + np.log(e.sum(-1)), rtol=1e-13)


def test_masked_piles_weigh_nothing():
    """A pile of -inf before, between or after: no NaN, no warning, no change; alone: 0, -inf."""
    masked = OnlineState.from_tile(np.full((2, 4), -np.inf), np.ones((4, 3)))
    o, lse = masked.merge(masked).finalize()
    assert not o.any()
    assert (lse == -np.inf).all()
    pile = OnlineState.from_tile(np.array([[1.0, 3.0], [-150.0, -140.0]]), np.ones((2, 3)))
    for state in (masked.merge(pile), pile.merge(masked), masked.merge(pile).merge(masked)):
        assert_same(state, pile)


def test_values_must_match_the_scores():
    with pytest.raises(ValueError, match="values must have shape"):
        OnlineState.from_tile(np.zeros((2, 3)), np.zeros((4, 1)))
    with pytest.raises(ValueError, match="values must have shape"):
        OnlineState.from_tile(np.zeros(3), np.zeros(3))
