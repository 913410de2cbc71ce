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


def test_a_copy_holds_what_its_storage_does_not_say():
    torch = pytest.importorskip("torch")
    x = torch._neg_view(torch.arange(4.0))
    assert copy_inputs([x])[0].tolist() == [0, -1, -2, -3]


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


def test_an_answer_in_the_memory_of_the_one_before_is_found():
    kept = np.zeros(2)

    def one_buffer(x):
        kept[...] = x
        return 3, [kept[:1]]

    def new(x):
        return 3, [x + 1]

    for function, found in ((one_buffer, NEW), (new, None)):
        earlier: list[object] = []
        calls = [call(function, (np.full(2, n),), {}, earlier=earlier) for n in (1.0, 2.0)]
        assert calls[0].tampering is None
        assert (calls[1].tampering or [None])[0] == found


def test_a_constant_that_is_asked_for_without_an_input_may_be_returned_twice():
    constant = np.arange(3)
    earlier: list[object] = []
    calls = [call(lambda: constant, (), {}, earlier=earlier) for _ in range(2)]
    assert [called.tampering for called in calls] == [None, None]


def test_the_advice_is_about_what_was_changed_in_the_list():
    for change, says in (
        (lambda piles: piles[1].__isub__(1), "not x += y"),
        (lambda piles: piles.pop(), "not x.pop"),
    ):
        given = {"piles": [np.ones(2), np.ones(2)]}
        before = copy_inputs(given)
        change(given["piles"])
        assert says in find_tampering(given, before, None)[1]
