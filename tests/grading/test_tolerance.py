"""The standard of correctness: strict enough for mistakes, wide enough for rounding."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.grading.tolerance import allowed_error, same, wrong_places


def test_nan_is_wrong_whatever_is_allowed():
    assert wrong_places(np.array([np.nan]), np.array([1.0]), 1e9).all()
    assert wrong_places(np.array([np.nan]), np.array([np.nan]), 1e9).all()


def test_infinity_must_agree_exactly():
    truth = np.array([-np.inf, -np.inf, -np.inf, 0.0])
    got = np.array([-np.inf, np.inf, -1e30, -np.inf])
    assert wrong_places(got, truth, 1.0).tolist() == [False, True, True, True]


def test_the_allowance_is_twice_the_eager_error_and_a_little():
    truth, eager = np.array([1.0, 2.0]), np.array([1.0, 2.25])
    assert allowed_error(truth, eager, "float32") == 0.5 + 1e-5
    assert allowed_error(truth, eager, "float16") == 0.5 + 2 * 2.0**-11 * 2


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8), st.floats(1e-9, 1e3))
@settings(deadline=None, max_examples=50)
def test_an_answer_off_by_more_than_allowed_is_wrong_everywhere(values, allowed):
    truth = np.array(values)
    off = truth + 4 * max(allowed, np.abs(truth).max() * 1e-12)
    assert not wrong_places(truth, truth, allowed).any()
    assert wrong_places(off, truth, allowed).all()


def test_same_looks_into_nested_answers():
    assert same({"o": [36.88, (1, "full")]}, {"o": [36.8801, (1, "full")]})
    assert not same({"o": [36.88, (1, "full")]}, {"o": [36.88, (1, "skip")]})
    assert same(np.array([np.nan, 1]), np.array([np.nan, 1]))
    assert not same([1, 2], [1, 2, 3])
