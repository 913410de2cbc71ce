"""FlatMemory: counts what was asked for, and names the address that belongs to nobody."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from course_lib.accounting.memory import GAP, FlatMemory
from course_lib.accounting.traffic import flash_tile_loads


@settings(max_examples=50, deadline=None)
@given(st.lists(hnp.arrays(np.float32, hnp.array_shapes(max_dims=4, max_side=4)), min_size=1))
def test_tensors_come_back_and_strides_find_every_element(arrays):
    memory = FlatMemory()
    for i, array in enumerate(arrays):
        assert memory.place(f"t{i}", array) == memory.offset(f"t{i}")
    for i, array in enumerate(arrays):
        np.testing.assert_array_equal(memory.array(f"t{i}"), array)
        index = np.indices(array.shape)
        strides = np.array(memory.strides(f"t{i}")).reshape(-1, *[1] * array.ndim)
        addresses = memory.offset(f"t{i}") + (index * strides).sum(axis=0)
        np.testing.assert_array_equal(memory.load(addresses), array)
        assert memory.read[f"t{i}"] == array.size * 4
    assert memory.total == sum(array.size for array in arrays) * 4


def test_masked_places_are_neither_read_nor_counted():
    memory = FlatMemory(itemsize=2)
    start = memory.place("q", np.arange(5))
    wanted = np.arange(8)
    loaded = memory.load(start + wanted, mask=wanted < 5, other=-np.inf)
    np.testing.assert_array_equal(loaded, [0, 1, 2, 3, 4, -np.inf, -np.inf, -np.inf])
    assert memory.read == {"q": 5 * 2}
    memory.store(start + wanted, 7.0, mask=wanted < 2)
    np.testing.assert_array_equal(memory.array("q"), [7, 7, 2, 3, 4])
    assert memory.written == {"q": 2 * 2}


def test_a_block_mask_broadcasts_as_in_triton():
    memory = FlatMemory()
    start = memory.place("k", np.arange(6).reshape(3, 2))
    rows, columns = np.arange(4)[:, None], np.arange(2)[None, :]
    tile = memory.load(start + rows * 2 + columns, mask=rows < 3)
    np.testing.assert_array_equal(tile, [[0, 1], [2, 3], [4, 5], [0, 0]])
    assert memory.read["k"] == 24


def test_one_access_may_touch_several_tensors():
    memory = FlatMemory()
    q, k = memory.place("q", np.zeros(3)), memory.place("k", np.ones(3))
    np.testing.assert_array_equal(memory.load([q, k, k + 1]), [0, 1, 1])
    assert memory.read == {"q": 4, "k": 8}


def test_out_of_bounds_is_one_sentence_that_names_the_neighbour():
    memory = FlatMemory()
    q, k = memory.place("q", np.zeros(5)), memory.place("k", np.zeros(5))
    with pytest.raises(
        IndexError,
        match=r"load: 3 of 8 addresses belong to no tensor; the first, \d+, is 1 after the last "
        r"element of 'q': is a mask missing\?",
    ):
        memory.load(q + np.arange(8))
    with pytest.raises(IndexError, match="is 2 before the first element of 'k'"):
        memory.store(k - 2, 1.0)
    with pytest.raises(IndexError, match="1 of 1 address belong"):
        memory.load(-1)
    with pytest.raises(IndexError, match=f"is {GAP + 1} after the last element of 'k'"):
        memory.load(k + 5 + GAP)  # past the end of everything
    with pytest.raises(IndexError, match="the memory is empty"):
        FlatMemory().load(0)
    assert memory.total == 0  # a refused access moves nothing
    np.testing.assert_array_equal(memory.array("k"), np.zeros(5))


def test_bad_input_gets_one_sentence():
    memory = FlatMemory()
    start = memory.place("q", np.zeros(4))
    with pytest.raises(ValueError, match="name must be new, but 'q'"):
        memory.place("q", np.zeros(4))
    with pytest.raises(ValueError, match="at least one element"):
        memory.place("empty", np.zeros((0, 3)))
    with pytest.raises(TypeError, match="addresses must be integers, got float64"):
        memory.load(start + 0.5)
    with pytest.raises(TypeError, match="mask must be boolean, got int64"):
        memory.load(start, mask=1)
    with pytest.raises(ValueError, match=r"values must broadcast .* \(2,\), got \(3,\)"):
        memory.store(start + np.arange(2), np.zeros(3))
    with pytest.raises(ValueError, match=r"tensor in memory \(q\), got 'o'"):
        memory.array("o")
    with pytest.raises(ValueError, match="itemsize must be 2 or 4, got 8"):
        FlatMemory(itemsize=8)


@pytest.mark.parametrize(("n", "block_q", "block_k"), [(32, 8, 8), (29, 8, 4), (17, 16, 5)])
def test_a_tile_loop_on_flat_memory_moves_what_the_model_says(n, block_q, block_k):
    d = 4
    memory = FlatMemory()
    base = {name: memory.place(name, np.zeros((n, d))) for name in "qkvo"}
    columns = np.arange(d)[None, :]
    for i in range(0, n, block_q):
        q_rows = i + np.arange(block_q)[:, None]
        memory.load(base["q"] + q_rows * d + columns, mask=q_rows < n)
        for j in range(0, n, block_k):
            k_rows = j + np.arange(block_k)[:, None]
            for name in "kv":
                memory.load(base[name] + k_rows * d + columns, mask=k_rows < n)
        memory.store(base["o"] + q_rows * d + columns, 1.0, mask=q_rows < n)
    model = flash_tile_loads.terms(n=n, d=d, b=4, block_q=block_q, block_k=block_k)
    assert memory.read == model["read"]
    assert memory.written == model["written"]
    assert memory.array("o").all()


def test_visits_say_which_rows_were_touched_and_their_bytes_are_the_books():
    memory = FlatMemory(itemsize=2)
    start, line = memory.place("k", np.zeros((2, 5, 3))), memory.place("l", np.zeros(7))
    memory.load(start + np.arange(6, 12))
    memory.load(start + 15 + np.arange(3))  # the second head begins again with row 0
    memory.store(line + np.arange(2, 6), 1.0, mask=np.arange(4) < 3)
    assert [visit[1:5] for visit in memory.visits] == [
        ("k", (2, 4), "load", 12), ("k", (0, 1), "load", 6), ("l", (2, 5), "store", 6),
    ]  # fmt: skip
    assert sum(visit.n_bytes for visit in memory.visits) == memory.total
