"""What counts as an input that was not left alone: arrays, and what lists and dicts hold."""

from __future__ import annotations

import numpy as np
import pytest

from course_lib.sandbox.calling import call
from course_lib.sandbox.inputs import NEW, UNCHANGED, copy_inputs, find_tampering


def _inputs():
    tree = {5: ([5, 8], {9: ([9], {})}), 3: ([3, float("nan")], {})}
    return {1: [1, 2, 3], 2: tree, "x": np.arange(3.0), "n": 4}


CHANGES = {
    "an item less": (lambda given: given[1].pop(), "number 1"),
    "another item": (lambda given: given[1].__setitem__(0, 7), "number 1"),
    "an item of another type": (lambda given: given[1].__setitem__(0, 1.0), "number 1"),
    "another order": (lambda given: given[1].reverse(), "number 1"),
    "a key less": (lambda given: given[2].pop(3), "number 2"),
    "a key more, deep inside": (lambda given: given[2][5][1].update({1: ([1], {})}), "number 2"),
    "an item more, deep inside": (lambda given: given[2][5][1][9][0].append(2), "number 2"),
    "another number in an array": (lambda given: given["x"].__setitem__(0, 1), "`x`"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_input_is_named(change):
    given = _inputs()
    before = copy_inputs(given)
    make, name = CHANGES[change]
    make(given)
    broken, says = find_tampering(given, before, None)
    assert broken == UNCHANGED
    assert f"its input {name}:" in says


def test_inputs_that_are_only_read_are_left_alone():
    given = _inputs()
    assert find_tampering(given, copy_inputs(given), sorted(given[1])) is None


def test_a_result_in_an_inputs_memory_is_found_inside_a_list():
    given = {1: [np.arange(4.0)]}
    broken, says = find_tampering(given, copy_inputs(given), (given[1][0][1:], 2))
    assert broken == NEW
    assert "number 1" in says


def test_an_input_that_was_changed_is_called_as_the_function_calls_it():
    def named(x, lengths):
        lengths += 1

    def nameless(*arrays):
        arrays[1][:] = 0

    for function, label in ((named, "`lengths`"), (nameless, "number 2")):
        called = call(function, (np.ones(2), np.ones(2)), {})
        assert called.tampering[1].startswith(f"your function changed its input {label}:")
