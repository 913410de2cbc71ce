"""Texts are no numbers, though Python reads some of them as such."""

from __future__ import annotations

import numpy as np
import pytest

from course_lib.judging.judges import compare


@pytest.mark.parametrize(
    ("got", "expected"),
    [("3", 3), (b"3", 3), ((9, "3"), (9, 3)), (["1", "2"], np.array([1.0, 2.0]))],
)
def test_a_text_is_no_number(got, expected):
    assert compare(got, expected, "the answer", 1e-6).property in ("the form", "the type")


def test_a_number_that_prints_like_the_right_one_is_told_in_more_digits():
    finding = compare(0.54525954, 0.545259520, "the entry 'total_gb'", 0.0)
    assert "yours is 0.54525954; that is close" in finding.says
    assert "yours is 3; that is not it" in compare(3, 4, "the answer", 0.0).says


def test_as_many_names_are_returned_as_there_are_values():
    finding = compare({1, 2}, (1.0, 2.0, 3.0), "the answer", 0.0)
    assert finding.says == "the answer should be 3 values, not a set: return a, b, c."
