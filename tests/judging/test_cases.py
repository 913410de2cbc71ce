"""The hard inputs are hard: what is not a row's maximum so far overflows in every one of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from course_lib.judging import cases
from course_lib.judging.spec import FAR, JUMPS, REMAINDER
from course_lib.judging.tolerance import output_rounding, score_rounding

STATISTICS = {
    "mean": lambda tile: tile.mean(),
    "median": np.median,
    "minimum": lambda tile: tile.min(),
    "first": lambda tile: tile[0],
}
BY = (150.0, 2000.0)
OVERFLOWS = {150.0: 104, 2000.0: 746}  # exp of more is infinite, of less is 0, in either precision


def tiles_of(row, width):
    return [row[i : i + width] for i in range(0, len(row), width)]


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("width", [4, 8, 16, 32, 65])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_no_other_statistic_of_a_tile_is_near_its_maximum(by, width, statistic):
    """The largest so far of that statistic, as people keep it, lies far below some score."""
    row, kept, above = cases.jumps(65, by), -np.inf, []
    for tile in tiles_of(row, width):
        kept = max(kept, STATISTICS[statistic](tile))
        above.append(tile.max() - kept)
    assert max(above) > OVERFLOWS[by]


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("width", [4, 8, 16])
def test_the_first_maximum_is_far_from_the_last_whichever_way_the_scores_go(by, width):
    up = cases.jumps(33, by)
    tops = [tile.max() for tile in tiles_of(up, width)]
    assert max(tops) - tops[0] > OVERFLOWS[by]
    tops = [tile.max() for tile in tiles_of(-up, width)]
    assert tops[0] - min(tops) > OVERFLOWS[by]


def test_a_row_of_zeros_a_climbing_and_a_falling_one_stand_in_one_tile():
    q, k, _ = cases.jumping(np.random.default_rng(1), 9, 33, 16, 150.0)
    s = q @ k.T / 4
    assert not s[::3].any()
    assert (s[1::3, 32] - s[1::3, 0] > 300).all()
    assert (s[2::3, 0] - s[2::3, 32] > 300).all()


@pytest.mark.parametrize("d", [4, 16, 64])
def test_hard_scores_are_exact_in_float32_in_any_order(d):
    """So an honest answer in float32 is not refused, and a wrong one has no excuse."""
    rng = np.random.default_rng(1)
    for _, (q, k, _), _ in cases.hard(rng, 9, 33, d):
        one = q @ k.T * np.float32(d**-0.5)
        other = (q[:, ::-1] * np.float32(d**-0.5)) @ k[:, ::-1].T
        exact = q.astype(np.float64) @ k.T.astype(np.float64) * d**-0.5
        assert one.dtype == np.float32
        np.testing.assert_array_equal(one, exact)
        np.testing.assert_array_equal(other, exact)


def test_far_scores_lie_below_what_is_written_for_minus_infinity():
    _, (_, (q, k, _), shows) = cases.hard(np.random.default_rng(1), 9, 33, 16)
    assert (q @ k.T / 4).max() < -1e4
    assert FAR in shows


@pytest.mark.parametrize("strided", ["q", "all"])
def test_strided_tensors_share_no_stride_with_each_other_nor_with_a_result_like_q(strided):
    q, k, v = cases.launch(
        np.random.default_rng(1), "", 20, 24, 16, heads=(2, 3), strided=strided
    ).args
    result = [torch.empty_like(q)] if strided == "q" else []  # else it lies as q does
    layouts = [x.stride() for x in (q, k, v, *result)]
    for one, other in itertools.combinations(layouts, 2):
        assert one[2:] != other[2:]


def test_rounding_moves_no_weight_of_scores_that_lie_far_apart():
    q, k, v = cases.farthest(np.random.default_rng(1), 3, 5, 4)
    assert output_rounding(q, k, v) == 0 < score_rounding(q, k, v)
    q, k, v = cases.far_below(np.random.default_rng(1), 3, 5, 4, cases.FAR_BELOW)
    assert output_rounding(q, k, v) == score_rounding(q, k, v) > 0


def test_a_launch_says_what_it_shows():
    rng = np.random.default_rng(1)
    first, *others = cases.hard_launches(rng, 17, 33, 16, tiles=(16, 32))
    assert first.shows == {JUMPS, REMAINDER}
    assert [one.shows for one in others] == [*2 * [{FAR, REMAINDER}], {REMAINDER}]
    assert not cases.launch(rng, "", 17, 32, 16, tiles=(16, 32)).shows
