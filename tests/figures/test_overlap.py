"""The timeline of one SM: units do one thing at a time, programs go in order, and time is short."""

from __future__ import annotations

from itertools import pairwise

import pytest

from course_lib.accounting.measurements import load_measurements
from course_lib.figures.overlap import busy, overlapped, product_cycles
from course_lib.figures.timeline import cycles_of_a_tile, share_of_peak


@pytest.mark.parametrize("programs", [1, 2, 3])
def test_a_unit_works_for_one_program_and_a_program_in_order(programs):
    tasks = overlapped(programs, 5, d=128, block=64)
    assert len(tasks) == 3 * 5 * programs
    for group in (
        [t for t in tasks if t.what == "exp"],
        [t for t in tasks if t.what != "exp"],
        *([t for t in tasks if t.program == p] for p in range(programs)),
    ):
        assert all(a.end <= b.start + 1e-9 for a, b in pairwise(group))
    assert [t.what for t in tasks if t.program == 0] == ["S", "exp", "P V"] * 5


def test_a_second_program_fills_what_the_first_leaves_empty():
    """At d = 128 exponentials are half of the products; at d = 64 as much."""
    alone = busy(overlapped(1, 50, d=128, block=64))
    assert alone == pytest.approx(2 / 3, abs=0.01)
    assert busy(overlapped(1, 50, d=64, block=64)) == pytest.approx(1 / 2, abs=0.01)
    assert busy(overlapped(2, 50, d=128, block=64)) > 0.99


def test_the_cycles_of_a_tile_lead_to_the_share_of_the_peak():
    """Rung 4: two programs, each with two products of 64 x 64 x 128, in one tile's cycles."""
    assert product_cycles(64, 64, 128) == pytest.approx(256, rel=0.001)
    products, took = cycles_of_a_tile("edge_masks")
    assert products == pytest.approx(2 * 2 * 256, rel=0.001)
    steps = load_measurements("h100_timeline")["rows"][0]["medians"]
    assert took == sum(step["cycles"] for step in steps)
    assert products / took == pytest.approx(share_of_peak("edge_masks"), abs=0.03)
    products, took = cycles_of_a_tile("specialised")  # what is outside the loop is not in it
    assert products == pytest.approx(3 * 2 * 256, rel=0.001)
    assert products / took > share_of_peak("specialised", clocks=True) + 0.1
    products, took = cycles_of_a_tile("gradients")
    assert products == pytest.approx(2 * 5 * 256, rel=0.001)
    assert products / took > share_of_peak("gradients", clocks=True)
