"""Decode in NumPy: lesson 03's row by hand, float64, any split of any ragged batch."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention import OnlineState, attention_float64, masks
from course_lib.attention.decode import (
    ancestors,
    decode,
    merge_parts,
    split_decode,
    split_slices,
    who_sees,
)


def drawn(n_q, n_max, d, d_v, *, batch=2, kv_heads=2, group=1, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((batch, kv_heads * group, n_q, d))
    return q, *(rng.standard_normal((batch, kv_heads, n_max, x)) for x in (d, d_v))


def one_by_one(q, k, v, lengths):
    """Return what float64 says of each sequence alone, without the room behind its last key."""
    found = [
        attention_float64(q[b], k[b, :, :n], v[b, :, :n], causal=True)
        for b, n in enumerate(lengths)
    ]
    return [np.stack(x) for x in zip(*found, strict=True)]


def by_steps(i, j, parents):
    """Walk from i back to the cache, a parent at a time."""
    while i >= 0:
        if i == j:
            return True
        i = parents[i]
    return False


def test_two_parts_by_hand():
    """Lesson 03's row in two splits; what four wrong merges make of it."""
    o, lse = np.array([[18.8080], [39.5257]]), np.array([3.12693, 5.04859])
    merged, total = merge_parts(o, lse)
    assert merged == pytest.approx(36.8806, abs=2e-4)
    assert total == pytest.approx(5.18518, abs=1e-5)
    assert np.exp(lse - total) == pytest.approx([0.12768, 0.87232], abs=1e-5)
    assert o.mean() == pytest.approx(29.17, abs=5e-3)
    for weights, wrong in ((lse, 31.60), (2**lse, 35.20)):
        assert (weights @ o[:, 0]) / weights.sum() == pytest.approx(wrong, abs=1e-2)


def test_the_board():
    o, lse = merge_parts(np.array([[10.0], [50.0]]), np.log([2.0, 6.0]))
    assert o == pytest.approx(40)
    assert np.exp(lse) == pytest.approx(8)


@settings(max_examples=60, deadline=None)
@given(
    n_q=st.integers(1, 5), n_max=st.integers(1, 20), d=st.integers(1, 5), d_v=st.integers(1, 5),
    group=st.integers(1, 4), splits=st.integers(1, 24), data=st.data(),
)  # fmt: skip
def test_any_split_of_any_ragged_batch_is_float64(n_q, n_max, d, d_v, group, splits, data):
    lengths = data.draw(st.lists(st.integers(0, n_max), min_size=3, max_size=3))
    parents = [data.draw(st.integers(-1, i - 1)) for i in range(n_q)]
    q, k, v = drawn(n_q, n_max, d, d_v, batch=3, group=group, seed=data.draw(st.integers(0, 99)))
    o_parts, lse_parts = split_decode(q, k, v, lengths, splits=splits)
    assert o_parts.shape == (splits, *q.shape[:-1], d_v)
    found = merge_parts(o_parts, lse_parts)
    wanted = one_by_one(q, k, v, lengths)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)

    tree = split_decode(q, k, v, lengths, splits=splits, parents=parents)
    for b, n in enumerate(lengths):
        allowed = np.array(
            [[j < n - n_q or by_steps(i, j - n + n_q, parents) for j in range(n)]
             for i in range(n_q)], bool,
        ).reshape(n_q, n)  # fmt: skip
        wanted = attention_float64(q[b], k[b, :, :n], v[b, :, :n], allowed=allowed)
        for ours, theirs in zip(merge_parts(*tree), wanted, strict=True):
            np.testing.assert_allclose(ours[b], theirs, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(parts=st.integers(1, 6), empty=st.sets(st.integers(0, 5)), seed=st.integers(0, 99))
def test_the_merge_is_lesson_03s_in_any_order(parts, empty, seed):
    """A part is the state (m = lse, l = 1, O = o); one without keys is the identity."""
    rng = np.random.default_rng(seed)
    o, lse = rng.standard_normal((parts, 3, 2)), 40 * rng.standard_normal((parts, 3))
    for part in empty & set(range(parts)):
        o[part], lse[part] = 0, -np.inf
    with np.errstate(invalid="raise"):
        found = merge_parts(o, lse)
        order = rng.permutation(parts)
        shuffled = merge_parts(o[order], lse[order])
    states = [
        OnlineState(m, np.where(m == -np.inf, 0.0, 1.0), x) for m, x in zip(lse, o, strict=True)
    ]
    folded = reduce(OnlineState.merge, states).finalize()
    for ours, again, theirs in zip(found, shuffled, folded, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
        np.testing.assert_allclose(ours, again, atol=1e-12)


def test_what_lies_behind_the_last_key_is_never_looked_at():
    q, k, v = drawn(2, 9, 4, 4, group=2)
    wanted = decode(q, k, v, [5, 9])
    k[0, :, 5:], v[0, :, 5:] = np.nan, np.nan
    for ours, theirs in zip(decode(q, k, v, [5, 9]), wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_chain_is_the_causal_mask_aligned_at_the_end():
    seen = who_sees(np.array([7]), 3, 7)[0]
    np.testing.assert_array_equal(seen, masks.causal().dense(3, 7))
    np.testing.assert_array_equal(ancestors([-1, 0, 1]), np.tri(3, dtype=bool))


def test_two_guesses_do_not_see_each_other():
    assert ancestors([-1, 0, 0, 2]).astype(int).tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 0, 1, 0],
        [1, 0, 1, 1],
    ]


def test_splits_are_runs_of_one_length_and_empty_ones_come_last():
    sizes = lambda n, splits: [x.stop - x.start for x in split_slices(n, splits)]  # noqa: E731
    assert sizes(7, 5) == [2, 2, 2, 1, 0]
    assert sizes(257, 2) == [129, 128]
    assert sizes(3, 5) == [1, 1, 1, 0, 0]
    assert sizes(0, 2) == [0, 0]


def test_half_inputs_are_summed_in_float32():
    q, k, v = (x.astype(np.float16) for x in drawn(1, 6, 4, 4))
    assert [x.dtype for x in decode(q, k, v)] == [np.float32, np.float32]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"lengths": [4, 10]}, "lengths must be 2 whole numbers from 0 to 9"),
        ({"lengths": [4.0, 9.0]}, "lengths must be 2 whole numbers"),
        ({"lengths": [4]}, "lengths must be 2 whole numbers"),
        ({"parents": [-1]}, "parents must name one for each of 2 queries"),
        ({"parents": [-1, 1]}, r"parents\[1\] must be from -1 to 0"),
    ],
)
def test_what_does_not_fit_is_named(change, says):
    with pytest.raises(ValueError, match=says):
        decode(*drawn(2, 9, 4, 4), **change)


def test_splits_and_axes_that_do_not_fit_are_named():
    q, k, v = drawn(2, 9, 4, 4)
    with pytest.raises(ValueError, match="splits must be"):
        split_decode(q, k, v, splits=0)
    with pytest.raises(ValueError, match="q must have shape"):
        split_decode(q[0], k[0], v[0], splits=2)
