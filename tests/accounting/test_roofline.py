"""The roof and the points under it."""

from __future__ import annotations

import pytest

from course_lib.accounting.hardware import gpu
from course_lib.accounting.roofline import Point, attainable, roofline


def test_the_roof_is_bandwidth_left_of_the_ridge_and_peak_right_of_it():
    h100 = gpu("H100")
    assert attainable(1, h100) == pytest.approx(3.35)
    assert attainable(h100.ridge, "H100") == pytest.approx(h100.tflops_half)
    assert attainable(1e6, "H100") == h100.tflops_half


def test_where_a_point_stands():
    # one head, N = 8192, d = 128, bf16, four trips: 63 FLOP/byte
    point = Point("naive", 4 * 8192**2 * 128, 4 * 8192**2 * 2 + 4 * 8192 * 128 * 2, 1e-3)
    assert point.intensity == pytest.approx(63, abs=0.1)
    assert point.share_of_roof("H100") == pytest.approx(34.36 / (63.0 * 3.35), rel=1e-2)


def test_the_figure_names_every_point_and_its_device():
    figure = roofline([Point("flash", 1e12, 1e9, 2e-3, "H100"), Point("naive", 1e12, 2e10, 9e-3)])
    assert figure.axes[0].get_legend() is None
    labels = [text.get_text() for text in figure.axes[0].texts]
    assert "flash, H100:\n500 TFLOP/s" in labels
    assert any(label.startswith("naive:\n111") for label in labels)
    assert "H100, nominal" in figure.note


def test_bad_input_gets_a_sentence():
    with pytest.raises(ValueError, match="seconds must be positive"):
        Point("x", 1, 1, 0)
    with pytest.raises(ValueError, match="gpu must be one of"):
        roofline([], "K80")
