"""The tile budget: the textbook tile, and the largest tile checked by trying its neighbours."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.accounting.format import bytes_binary
from course_lib.accounting.sram import largest_square_tile, tile_bytes

KIB = 1024


def test_a_128_tile_in_fp16_needs_161_kib():
    budget = tile_bytes(128, 128, 128, 2)
    assert {name: bytes_binary(n) for name, n in budget.items()} == {
        **dict.fromkeys("qkvso", "32 KiB"),
        "statistics": "1 KiB",
        "total": "161 KiB",
    }


def test_rectangular_tiles_grow_the_right_buffers():
    budget = tile_bytes(64, 32, 16, 4)
    assert budget["q"] == budget["o"] == 64 * 16 * 4
    assert budget["k"] == budget["v"] == 32 * 16 * 4
    assert budget["s"] == 64 * 32 * 4
    assert budget["statistics"] == 64 * 8
    assert budget["total"] == sum(n for name, n in budget.items() if name != "total")


@pytest.mark.parametrize(("kib", "largest"), [(192, 148), (163, 129)])
def test_largest_tile_at_d_128(kib, largest):
    assert largest_square_tile(kib * KIB, 128) == largest


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 300 * KIB), st.integers(1, 256), st.sampled_from([1, 2, 4]), st.booleans())
def test_largest_tile_fits_and_the_next_does_not(shared, d, b, with_statistics):
    def need(rows):
        if rows == 0:
            return 0
        budget = tile_bytes(rows, rows, d, b)
        return budget["total"] - (0 if with_statistics else budget["statistics"])

    rows = largest_square_tile(shared, d, b, with_statistics=with_statistics)
    assert need(rows) <= shared < need(rows + 1)


def test_bad_input_gets_one_sentence():
    with pytest.raises(ValueError, match="block_k must be a positive integer, got 0"):
        tile_bytes(16, 0, 16)
    with pytest.raises(ValueError, match=r"shared_bytes must be a positive integer, got 1\.5"):
        largest_square_tile(1.5, 16)
