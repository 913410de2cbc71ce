"""What is taken from the desk is a plain array, counted, and gone when the next part is taken."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from course_lib.accounting.desk import Desk


def piles(*arrays):
    desk = Desk()
    return desk.lay("piles", [np.array(a, dtype=float) for a in arrays]), desk.places["piles"]


def rows(n=6, d=2):
    desk, array = Desk(), np.arange(float(n * d)).reshape(n, d)
    return desk.lay("k", array), desk.places["k"], array


WALKS = {
    "for": lambda piles: list(map(np.sum, piles)),
    "zip": lambda piles: [s.sum() for s, _ in zip(piles, "abc", strict=True)],
    "enumerate": lambda piles: [piles[j].sum() + 0 * s.max() for j, s in enumerate(piles)],
    "reversed": lambda piles: [s.sum() for s in reversed(piles)][::-1],
    "slice": lambda piles: [piles[0].sum(), *(s.sum() for s in piles[1:])],
    "indexes": lambda piles: [piles[j].sum() / len(piles[j]) * piles[j].size for j in range(3)],
}


@pytest.mark.parametrize("walk", WALKS)
def test_each_way_to_walk_takes_each_pile_once(walk):
    given, books = piles([1, 2], [3], [4, 5, 6])
    assert WALKS[walk](given) == pytest.approx([3, 3, 15])
    assert books.times.tolist() == [1, 1, 1]


def test_a_pile_is_a_plain_array_and_nan_when_the_next_is_taken():
    given, books = piles([1, 2], [3])
    first = given[0]
    view, base = first[:1], first.base
    assert type(first) is np.ndarray
    assert first.tolist() == [1, 2]
    assert given[-1].tolist() == [3]
    assert np.isnan(first).all()
    assert np.isnan(view).all()
    assert np.isnan(base).all()
    with pytest.raises(IndexError, match="there is no pile 2"):
        given[2]
    assert given[0].tolist() == [1, 2], "the data are as they were"
    assert books.times.tolist() == [2, 1]


KEPT = {
    "list": list,
    "tuple": tuple,
    "star": lambda piles: [*piles],
    "views": lambda piles: [s[:] for s in piles],
    "asarray": lambda piles: [np.asarray(s) for s in piles],
    "buffers": lambda piles: [np.frombuffer(memoryview(s)) for s in piles],
    "dict": lambda piles: list(dict(enumerate(piles)).values()),
    "base": lambda piles: [s.base for s in piles],
}


@pytest.mark.parametrize("keep", KEPT)
def test_what_is_kept_is_gone(keep):
    given, _ = piles([1, 2], [3, 4], [5, 6])
    *old, last = KEPT[keep](given)
    assert np.isnan(old).all()
    assert last.tolist() == [5, 6]


USED_WHOLE = {
    "asarray": np.asarray,
    "array": np.array,
    "copy": lambda k: k.copy(),
    "operator": lambda k: k * 1.0,
    "reflected": lambda k: 1.0 * k,
    "product": lambda k: np.eye(6) @ k,
    "transposed product": lambda k: (np.eye(2) @ k.T).T,
    "function": lambda k: np.concatenate([k, k])[:6],
    "slice of all": lambda k: k[:],
    "buffer": lambda k: np.array(memoryview(np.asarray(k))),
}


@pytest.mark.parametrize("use", USED_WHOLE)
def test_an_array_used_as_a_whole_is_taken_whole(use):
    k, books, array = rows()
    np.testing.assert_array_equal(USED_WHOLE[use](k), array)
    assert books.tallest == 6
    assert books.times.min() >= 1


def test_tiles_are_counted_by_row_however_they_are_asked_for():
    k, books, array = rows()
    np.testing.assert_array_equal(k[0:2], array[:2])
    np.testing.assert_array_equal(k.T[:, 2:4], array[2:4].T)
    np.testing.assert_array_equal(k.reshape(3, 2, 2)[2], array[4:6])
    assert (books.times.tolist(), books.visits, books.tallest) == ([1] * 6, 3, 2)
    k[np.array([5, 0])], k[k.dtype.type(0) == np.arange(6)], k[1, 1]
    assert books.times.tolist() == [3, 2, 1, 1, 1, 2]


def test_to_choose_a_head_reads_nothing_and_its_rows_are_counted_as_they_are_taken():
    desk, array = Desk(), np.arange(24.0).reshape(2, 6, 2)
    k, books = desk.lay("k", array), desk.places["k"]
    heads = [*k, k[0:2][1], k.reshape(2, 1, 6, 2)[1][0], k.reshape(2, 1, 6, 2)[1, 0]]
    assert books.visits == 0
    for head, number in zip(heads, (0, 1, 1, 1, 1), strict=True):
        np.testing.assert_array_equal(head[2:4], array[number, 2:4])
    assert (books.visits, books.tallest) == (2, 2)
    np.testing.assert_array_equal(k[0] @ np.eye(2), array[0])
    assert books.tallest == 6
    assert books.times.tolist() == [1, 1, 2, 2, 1, 1, 0, 0, 1, 1, 0, 0]
    k[np.array([0, 1])]
    assert books.tallest == 12, "a list of heads is a copy of them"


def test_looking_at_the_shape_reads_nothing():
    k, books, _ = rows()
    assert (len(k), k.shape, np.shape(k), np.zeros_like(k).shape) == (6, (6, 2), (6, 2), (6, 2))
    assert k[6:8].shape == (0, 2)
    assert (books.visits, books.times.sum()) == (0, 0)


def test_what_lies_there_already_is_no_new_visit():
    k, books, _ = rows()
    again = [k[0:2].sum() for _ in range(3)]
    assert again == [6, 6, 6]
    assert books.visits == 1


def test_what_is_written_into_a_tile_reaches_the_array():
    k, _, array = rows()
    tile = k[0:2]
    tile -= 5
    k[2:4]
    assert array[:2].tolist() == [[-5, -4], [-3, -2]]
    k[4:6] = 0
    assert not array[4:6].any()


def test_a_copy_of_the_whole_leaves_no_trace_in_the_books():
    """So the check asks that everything is taken at least once as well."""
    k, books, _ = rows()
    copy.deepcopy(k)[:]
    assert not books.times.any()


def test_to_choose_rows_or_to_ask_reads_nothing():
    """What NumPy chooses is taken when it is used, or at once where it is told where to put it."""
    data = np.arange(24.0).reshape(6, 4)
    desk = Desk()
    k = desk.lay("k", data.copy())
    chosen = np.take(k, [2, 3], axis=0)
    first, _ = np.split(k, [2])
    assert (k.nbytes, np.result_type(k, np.float32), np.iscomplexobj(k)) == (192, np.float64, False)
    assert not np.may_share_memory(k, k.T)
    assert desk.places["k"].visits == 0
    assert (chosen + 0 == data[2:4]).all()
    assert (first.T + 0 == data[:2].T).all()
    room = np.empty((2, 4))
    assert np.take(k, [4, 5], axis=0, out=room) is room
    assert k.take([0, 1], axis=0, out=room) is room
    assert (room == data[:2]).all()
    books = desk.places["k"]
    assert (books.visits, books.tallest, books.times.tolist()) == (4, 2, [2, 2, 1, 1, 1, 1])
    assert books.reach.tolist() == [1, -1, 3, -1, 5, -1]
