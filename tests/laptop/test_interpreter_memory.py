"""The stand-in's loads, stores and atomics against those of Triton's own core, bit by bit."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

pytest.importorskip("triton")

from triton._C.libtriton import interpreter as core

from course_lib.laptop.core import interpreter_memory as standin

MANY = settings(max_examples=100, deadline=None)
INTEGERS = ("int32", "uint32", "int64", "uint64")
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "float16", *INTEGERS, "float32", "float64")
RELAXED = core.MEM_SEMANTIC.RELAXED
OPERATIONS = [
    *((op, dtype) for op in ("ADD", "AND", "OR", "XOR", "XCHG") for dtype in INTEGERS),
    *((op, dtype) for op in ("MAX", "MIN") for dtype in ("int32", "int64")),
    *((op, dtype) for op in ("UMAX", "UMIN") for dtype in ("uint32", "uint64")),
    *(("FADD", dtype) for dtype in ("float16", "float32", "float64")),
]


@dataclass
class Tile:
    """A tile of lanes that point into a piece of memory, as offsets in bytes."""

    dtype: np.dtype
    memory: np.ndarray  # of bytes
    offsets: np.ndarray
    mask: np.ndarray
    values: np.ndarray
    others: np.ndarray

    def run(self, function, *arguments):
        """Return what the function says on a copy of the memory, and what it leaves there."""
        memory = self.memory.copy()
        ptrs = self.offsets.astype(np.uint64) + np.uint64(memory.ctypes.data)
        answer = function(ptrs, *arguments)
        return answer, memory


@st.composite
def tiles(draw, dtypes=DTYPES, aligned=None):
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    places = draw(st.sampled_from([1, 3, 40, 1000]))  # few: many lanes share an address
    aligned = draw(st.booleans()) if aligned is None else aligned
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    offsets = rng.integers(0, places, shape) * (dtype.itemsize if aligned else 1)
    mask = rng.random(shape) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    values, others = (contents(rng, dtype, shape) for _ in range(2))
    if draw(st.booleans()):  # as a kernel's transposed tile comes
        offsets, mask, values = (np.asfortranarray(a) for a in (offsets, mask, values))
    memory = contents(rng, dtype, places + 1).view(np.uint8)
    return Tile(dtype, memory, offsets, mask, values, others)


def contents(rng, dtype, shape):
    """Return values of every kind: few small ones, zeros of both signs, infinities, any bits."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    size = int(np.prod(shape))
    anything = np.frombuffer(rng.bytes(size * dtype.itemsize), dtype).reshape(shape)
    small = rng.integers(0, 5, shape).astype(dtype)
    if dtype.kind == "f":
        small = np.where(rng.random(shape) < 0.2, rng.choice([0.0, -0.0, np.inf, -np.inf]), small)
    return np.where(rng.random(shape) < 0.5, anything, small.astype(dtype))


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        if a is not None or b is not None:
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert a.tobytes() == b.tobytes()


@MANY
@given(tiles())
def test_a_load_is_the_cores(tile):
    one, other = (
        tile.run(module.load, tile.mask, tile.others, tile.dtype) for module in (core, standin)
    )
    assert_same(one, other)


@MANY
@given(tiles())
def test_a_store_is_the_cores_and_the_last_lane_stays(tile):
    assert_same(*(tile.run(module.store, tile.values, tile.mask) for module in (core, standin)))


def test_what_is_shown_without_a_copy_of_its_own_is_read_too():
    row = np.arange(4, dtype=np.float32)
    ptrs = np.broadcast_to(
        np.uint64(row.ctypes.data) + np.arange(0, 16, 4, dtype=np.uint64), (3, 4)
    )
    mask = np.broadcast_to(np.array([True, False, True, True]), (3, 4))
    other = np.broadcast_to(np.float32(7), (3, 4))
    for module in (core, standin):
        np.testing.assert_array_equal(module.load(ptrs, mask, other, row.dtype), [[0, 7, 2, 3]] * 3)


@pytest.mark.parametrize(("name", "dtype"), OPERATIONS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_an_atomic_is_the_cores_lane_after_lane(name, dtype, data):
    tile = data.draw(tiles((dtype,), aligned=True))
    op = core.RMW_OP.__members__[name]
    one, other = (outcome(tile, module, op) for module in (core, standin))
    if isinstance(one, Exception) or isinstance(other, Exception):
        assert (type(one), type(other)) == (OverflowError, OverflowError)
        assert dtype == "float16"
        return
    found = [np.where(tile.mask, answer, 0) for answer, _ in (one, other)]  # off: anything
    left = [memory.view(tile.dtype) for _, memory in (one, other)]
    for a, b in (found, left):
        nans = np.isnan(a) & np.isnan(b) & (name == "FADD")  # which NaN is left to the processor
        np.testing.assert_array_equal(a[~nans].tobytes(), b[~nans].tobytes())


def outcome(tile, module, op):
    try:
        return tile.run(lambda ptrs: module.atomic_rmw(op, ptrs, tile.values, tile.mask, RELAXED))
    except OverflowError as error:
        return error


REFUSED = {*itertools.product(core.RMW_OP.__members__, DTYPES)} - {*OPERATIONS}


@pytest.mark.parametrize(("name", "dtype"), sorted(REFUSED))
def test_types_that_the_core_refuses_are_refused(name, dtype):
    word, on = np.zeros(1, dtype), np.ones(1, bool)
    ptrs = np.array([word.ctypes.data], np.uint64)
    for module in (core, standin):
        with pytest.raises(ValueError, match="Unsupported data type"):
            module.atomic_rmw(core.RMW_OP.__members__[name], ptrs, word, on, RELAXED)


@MANY
@given(tiles(("int8", "float16", "int32", "uint64", "float32", "float64"), aligned=True))
def test_compare_and_swap_is_the_cores_lane_after_lane(tile):
    expected = tile.memory.view(tile.dtype)[tile.offsets // tile.dtype.itemsize]
    compare = np.where(tile.mask, expected, tile.others)
    assert_same(
        *(tile.run(module.atomic_cas, compare, tile.values, RELAXED) for module in (core, standin))
    )


def test_a_counter_hands_out_every_number_once():
    counter = np.zeros(1, np.int32)
    ptrs = np.full((32, 32), counter.ctypes.data, np.uint64)
    ones, on = np.ones(ptrs.shape, np.int32), np.ones(ptrs.shape, bool)
    found = standin.atomic_rmw(core.RMW_OP.ADD, ptrs, ones, on, RELAXED)
    np.testing.assert_array_equal(found.reshape(-1), np.arange(1024))
    assert counter[0] == 1024


@pytest.mark.parametrize("module", [core, standin])
def test_a_mask_of_another_size_is_refused(module):
    row = np.zeros(4, np.float32)
    ptrs = np.full(4, row.ctypes.data, np.uint64)
    with pytest.raises(ValueError, match="cannot reshape"):
        module.load(ptrs, np.ones(1, bool), row, row.dtype)
