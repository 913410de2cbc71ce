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
