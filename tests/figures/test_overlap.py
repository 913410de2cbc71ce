"""The timeline of one SM: units do one thing at a time, programs go in order, and time is short."""

from __future__ import annotations

from itertools import pairwise

import pytest

from course_lib.figures.overlap import busy, overlapped


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
