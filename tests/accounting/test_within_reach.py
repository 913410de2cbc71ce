"""What a function kept from before a call is found wherever it can name it, and nothing else is."""

from __future__ import annotations

import array
import mmap

import numpy as np
import pytest

from course_lib.accounting.within_reach import bytes_within_reach

ROOM = 8 * 1000
NOT_NAMED = np.zeros(5000)
ARRAY = np.zeros(1000)
VIEW = np.zeros(1000)[::2].reshape(2, -1)
BUFFER = np.frombuffer(bytearray(ROOM))
MAPPED = np.frombuffer(mmap.mmap(-1, ROOM))
NESTED = {"rows": [array.array("d", bytes(ROOM))]}


class Kept:
    of_the_class = np.zeros(1000)


class Keeps:
    def __init__(self):
        self.room = np.zeros(1000)


KEEPS = Keeps()


def beside():
    return ARRAY


def enclosing():
    room = np.zeros(1000)
    return lambda: room


FUNCTIONS = {
    "a global": lambda: ARRAY,
    "a view": lambda: VIEW,
    "a bytearray": lambda: BUFFER,
    "a memory map": lambda: MAPPED,
    "nested": lambda: NESTED["rows"],
    "of a class": lambda: Kept.of_the_class,
    "of an object": lambda: KEEPS.room,
    "by a helper": lambda: beside(),
    "in a function inside": lambda: [(lambda: ARRAY)() for _ in range(2)],
    "a closure": enclosing(),
    "a default": lambda room=np.zeros(1000): room,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_buffer_is_found_and_counted_once(function):
    assert ROOM <= bytes_within_reach(function) < 1.2 * ROOM


def test_what_a_function_cannot_name_is_not_its_own():
    assert bytes_within_reach(lambda x: np.exp(x)) < 1000
    assert bytes_within_reach(np.exp) < 1000
    assert bytes_within_reach(len) < 1000
