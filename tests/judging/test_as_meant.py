"""Another container, or another type of number, is no mistake."""

from __future__ import annotations

from collections import namedtuple
from fractions import Fraction

import numpy as np
import pytest
import torch

from course_lib.judging.as_meant import as_meant
from course_lib.judging.judges import exactly
from course_lib.judging.spec import Case, Observed
from course_lib.sandbox.calling import call


@pytest.mark.parametrize("two", [[1.0, 2.0], np.array([1.0, 2.0]), torch.tensor([1.0, 2.0])])
def test_two_values_may_be_a_list_or_an_array(two):
    got = as_meant(two, (3.0, 4.0))
    assert isinstance(got, tuple)
    assert [float(x) for x in got] == [1.0, 2.0]


def test_pairs_may_be_rows_of_a_table_and_lists():
    assert as_meant(np.array([[0, 2], [2, 3]]), [(0, 2), (2, 4)]) == [(0, 2), (2, 3)]


def test_what_has_another_number_of_parts_stays_as_it_is():
    assert as_meant([1.0], (3.0, 4.0)) == [1.0]


def test_rows_without_end_are_not_listed():
    endless = np.zeros((1 << 40, 0))
    assert as_meant(endless, (3.0, 4.0)) is endless
    assert exactly(Case(""), Observed(endless), (3.0, 4.0)) is not None


def test_an_array_is_not_taken_apart_where_arrays_are_asked_for():
    whole = np.zeros((2, 3))
    assert as_meant(whole, (np.zeros(3), np.zeros(3))) is whole
    assert as_meant(whole, np.zeros((2, 3))) is whole


def test_a_yes_of_numpy_is_a_yes():
    assert as_meant((np.bool_(True), 1), (True, 1)) == (True, 1)
    assert as_meant(1, True) == 1
    assert not isinstance(as_meant(1, True), bool)


def test_every_host_gets_exact_numbers_as_floats():
    called = call(lambda: {"a": [Fraction(1, 4), (Fraction(1, 2), 3)]}, (), {})
    assert called.result == {"a": [0.25, (0.5, 3)]}
    assert isinstance(called.result["a"][0], float)


def test_exact_numbers_in_a_namedtuple_are_floats_too():
    pair = namedtuple("pair", "number verdict")
    called = call(lambda: {"a": pair(Fraction(1, 4), "holds")}, (), {})
    assert called.result == {"a": (0.25, "holds")}
    assert isinstance(called.result["a"][0], float)
