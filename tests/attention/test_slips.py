"""The right slip is online softmax; every other one gives another answer somewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention import OnlineState
from course_lib.attention.slips import SLIPS, states, stream

TILE = 4


def inputs(seed, shift=0.0, dtype=np.float64):
    """Return scores (6, 11) whose maxima rise and fall, one row without a key, and values."""
    rng = np.random.default_rng(seed)
    s = rng.normal(shift, 3, (6, 11))
    s[0] = np.sort(s[0])
    s[1] = np.sort(s[1])[::-1]
    s[2] = -np.inf
    s[3, :5] = -np.inf
    return s.astype(dtype), rng.normal(5, 2, (11, 3))


@given(seed=st.integers(0, 99), shift=st.sampled_from([0.0, 900.0, -900.0]))
@settings(max_examples=25, deadline=None)
def test_without_a_slip_it_is_the_merge_of_the_tiles(seed, shift):
    s, v = inputs(seed, shift)
    tiles = [(first, min(first + TILE, 11)) for first in range(0, 11, TILE)]
    merged = OnlineState.identity((6,), 3)
    for tile, now in zip(tiles, states(SLIPS["right"], s, v, tiles), strict=True):
        merged = merged.merge(OnlineState.from_tile(s[:, slice(*tile)], v[slice(*tile)]))
        np.testing.assert_array_equal(now.m[:, 0], merged.m)
        np.testing.assert_allclose(now.l_sum[:, 0], merged.l_sum, rtol=1e-12)
        np.testing.assert_allclose(now.o, merged.o, rtol=1e-12)
    for got, wanted in zip(stream(SLIPS["right"], s, v, TILE), merged.finalize(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in SLIPS if name != "right"])
def test_every_named_slip_shows_somewhere(name):
    """Near 0, near 900 or near -900, in one way or the other of caring about empty rows."""
    shown = []
    for shift in (0.0, 900.0, -900.0):
        s, v = inputs(7, shift)
        s = np.where(np.isneginf(s), SLIPS[name].fill, s)
        right = np.column_stack(stream(SLIPS["right"], *inputs(7, shift), TILE))
        for guarded in SLIPS[name].guards:
            wrong = np.column_stack(stream(SLIPS[name], s, v, TILE, guarded=guarded))
            shown.append(not np.allclose(wrong, right, rtol=1e-6))
    assert any(shown)


def test_a_row_meets_only_the_tiles_that_begin_before_its_end():
    s, v = inputs(3)
    ends = np.array([11, 8, 11, 8, 4, 1])
    got, _ = stream(SLIPS["right"], s, v, TILE, ends=ends)
    for row, end in enumerate(-(-ends // TILE) * TILE):
        only, _ = stream(SLIPS["right"], s[row : row + 1, :end], v[:end], TILE)
        np.testing.assert_allclose(got[row], only[0], rtol=1e-12)
