"""Rows in one byte a number: what is lost, where scales go, and e4m3 against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention import attention_float64
from course_lib.attention.quantised import (
    INT8_MAX,
    dequantise,
    e4m3,
    fp8_rows,
    int8_rows,
    quantisation_error,
    quantised_decode,
)

KINDS = [int8_rows, fp8_rows]


def drawn(seed=0, n=40, d=16, heads=4, kv_heads=2):
    rng = np.random.default_rng(seed)
    shapes = ((2, heads, 1, d), (2, kv_heads, n, d), (2, kv_heads, n, d))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def test_a_row_by_hand():
    numbers, scale = int8_rows(np.array([[0.5, -2.54, 0.031, 0.0]]))
    assert scale == pytest.approx(2.54 / 127)
    assert numbers.tolist() == [[25, -127, 2, 0]]
    assert (numbers.dtype, scale.dtype) == (np.int8, np.float32)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 999), size=st.floats(1e-6, 1e6))
def test_no_int8_number_is_off_by_more_than_half_a_scale(seed, size):
    x = size * drawn(seed)[1]
    numbers, scale = int8_rows(x)
    assert np.abs(numbers).max(axis=-1).tolist() == np.full(x.shape[:-1], INT8_MAX).tolist()
    assert (np.abs(dequantise((numbers, scale)) - x) <= 0.501 * scale).all()


@pytest.mark.parametrize("rows", KINDS)
def test_zeros_stay_zeros_and_an_outlier_costs_its_own_row_only(rows):
    x = drawn()[1]
    x[0, 0, 3] = 0
    assert not dequantise(rows(x))[0, 0, 3].any()
    before = dequantise(rows(x))
    x[0, 0, 5, 2] = 1000
    after = dequantise(rows(x))
    np.testing.assert_array_equal(np.delete(after, 5, axis=2), np.delete(before, 5, axis=2))


def test_beside_an_outlier_int8_has_nothing_left_and_fp8_has():
    row = np.array([[1000.0, 1.0, -2.0, 3.0]])
    assert dequantise(int8_rows(row))[0, 1:].tolist() == [0, 0, 0]
    np.testing.assert_allclose(dequantise(fp8_rows(row)), row, rtol=2.0**-4)


def test_e4m3_is_pytorchs_on_every_half_number_in_its_range():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    x = every[np.abs(every) <= 448].astype(np.float32)  # NaN and infinities are not
    wanted = torch.from_numpy(x).to(torch.float8_e4m3fn).float().numpy()
    np.testing.assert_array_equal(e4m3(x), wanted)
    assert e4m3(np.array([1e9, -1e9])).tolist() == [448, -448]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 99), st.sampled_from([(4, 4), (4, 2), (3, 1)]))
def test_scales_on_scores_and_weights_are_the_rows_multiplied_out(rows, seed, heads):
    q, k, v = drawn(seed, heads=heads[0], kv_heads=heads[1])
    k, v = rows(k), rows(v)
    wanted, _ = attention_float64(q, dequantise(k), dequantise(v))
    np.testing.assert_allclose(quantised_decode(q, k, v), wanted, atol=2e-5)


def test_a_quantised_cache_is_not_free():
    """Of normal numbers, int8 loses less than fp8: 127 even steps against 8 a power of two."""
    q, k, v = drawn(n=200, d=64)
    int8, fp8 = (quantisation_error(q, k, v, rows) for rows in KINDS)
    assert 1e-4 < int8 < fp8 < 0.2
    k[..., 7] *= 1000  # every row has an outlier, in one place
    q[..., 7] /= 1000
    assert quantisation_error(q, k, v, int8_rows) > 10 * int8
    assert quantisation_error(q, k, v, fp8_rows) < 2 * fp8


def test_shapes_that_do_not_fit_are_named():
    q, k, v = drawn()
    with pytest.raises(ValueError, match="v must match k"):
        quantised_decode(q, int8_rows(k), int8_rows(v[:, :, :-1]))
