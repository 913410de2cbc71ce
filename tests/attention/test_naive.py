"""Naive attention against the float64 truth, and the truth against a loop over single pairs."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from attention.inputs import CASES, assert_as_good_as_eager, assert_lse, normal

from course_lib.attention import attention_float64, naive, naive_masked, naive_scaled, softmax_rows
from course_lib.attention.naive_eager import (
    naive_eager,
    naive_eager_einsum,
    naive_eager_four_trips,
)

EAGER = [naive_eager, naive_eager_four_trips, naive_eager_einsum]


def attention_pair_by_pair(q, k, v, sees, scale):
    """One head, one pair at a time, in Python floats with exact sums: an independent truth."""
    o, lse = np.zeros((len(q), v.shape[1])), np.full(len(q), -np.inf)
    for i in range(len(q)):
        keys = [j for j in range(len(k)) if sees(i, j)]
        if not keys:
            continue
        s = [scale * math.fsum(float(a) * float(b) for a, b in zip(q[i], k[j])) for j in keys]
        total = math.fsum(math.exp(x - max(s)) for x in s)
        lse[i] = max(s) + math.log(total)
        for c in range(v.shape[1]):
            o[i, c] = math.fsum(math.exp(x - lse[i]) * float(v[j, c]) for x, j in zip(s, keys))
    return o, lse


@pytest.mark.parametrize(("n_q", "n_k"), [(5, 5), (3, 8), (8, 3)])
@pytest.mark.parametrize("causal", [False, True])
def test_truth_is_the_definition(n_q, n_k, causal):
    case = normal(n_q, n_k, 4, lead=(2, 4), kv_heads=2)
    o, lse = attention_float64(case.q, case.k, case.v, causal=causal, scale=0.7)
    sees = lambda i, j: not causal or j <= i + n_k - n_q  # noqa: E731
    for b in range(2):
        for h in range(4):
            head = case.q[b, h], case.k[b, h // 2], case.v[b, h // 2]
            o_head, lse_head = attention_pair_by_pair(*head, sees, 0.7)
            np.testing.assert_allclose(o[b, h], o_head, rtol=0, atol=1e-14)
            np.testing.assert_allclose(lse[b, h], lse_head, rtol=0, atol=1e-14)


def test_truth_default_scale_and_allowed():
    """Scale 1/sqrt(d); causal and allowed together mean both; a row without any key: 0 and -inf."""
    case = normal(6, 6, 4)
    allowed = np.random.default_rng(1).random((6, 6)) < 0.5
    allowed[2] = False
    for array in (allowed, torch.from_numpy(allowed)):
        o, lse = attention_float64(case.q, case.k, case.v, causal=True, allowed=array)
        sees = lambda i, j: allowed[i, j] and j <= i  # noqa: E731
        expected = attention_pair_by_pair(case.q, case.k, case.v, sees, 0.5)
        np.testing.assert_allclose(o, expected[0], atol=1e-14)
        np.testing.assert_allclose(lse, expected[1], rtol=0, atol=1e-14)
    assert not o[2].any()
    assert lse[2] == -np.inf


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_truth_takes_tensors_as_they_are_rounded(dtype):
    """A tensor gives what its own values, written as float64, give; gradients do not disturb."""
    case = normal(9, 12, 8, lead=(2,))
    tensors = [torch.from_numpy(x).to(dtype).requires_grad_() for x in (case.q, case.k, case.v)]
    arrays = [np.array(t.tolist()) for t in tensors]
    for a, b in zip(attention_float64(*tensors), attention_float64(*arrays), strict=True):
        assert np.array_equal(a, b)


def test_truth_does_not_change_its_inputs():
    case = normal(5, 7, 4, dtype=np.float64)
    before = [x.copy() for x in (case.q, case.k, case.v)]
    attention_float64(case.q, case.k, case.v, causal=True)
    assert all(np.array_equal(a, b) for a, b in zip((case.q, case.k, case.v), before))


def test_truth_agrees_with_pytorch():
    """Where n_q = n_k, PyTorch's own causal attention in float64 is the same function."""
    case = normal(33, 33, 16, lead=(2, 3), dtype=np.float64)
    q, k, v = map(torch.from_numpy, (case.q, case.k, case.v))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    o, _ = attention_float64(q, k, v, causal=True)
    np.testing.assert_allclose(o, expected.numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((4,), (4,), (4,)), "q must have shape"),
        (((5, 4), (6, 3), (6, 3)), "head_dim"),
        (((5, 4), (6, 4), (7, 4)), "v must match k"),
        (((2, 5, 4), (6, 4), (6, 4)), "k must have as many axes"),
        (((2, 3, 5, 4), (1, 3, 6, 4), (1, 3, 6, 4)), "batch"),
        (((3, 5, 4), (2, 6, 4), (2, 6, 4)), "divides q's 3"),
        (((3, 5, 4), (0, 6, 4), (0, 6, 4)), "divides q's 3"),
    ],
)
def test_shapes_that_do_not_fit_get_a_sentence(shapes, words):
    with pytest.raises(ValueError, match=words):
        attention_float64(*map(np.zeros, shapes))


def test_masks_must_be_boolean():
    case = normal(3, 3, 4)
    for function in (naive_masked, lambda *qkva: attention_float64(*qkva[:3], allowed=qkva[3])):
        with pytest.raises(TypeError, match="boolean"):
            function(case.q, case.k, case.v, np.zeros((3, 3), np.float32))


def test_softmax_rows_sum_to_one_at_any_size_of_score():
    scores = np.array([[-1000.0, -1001.0], [1000.0, 1001.0], [0.0, 1.0]])
    weights = softmax_rows(scores)
    np.testing.assert_allclose(weights.sum(-1), 1)
    np.testing.assert_allclose(weights[1:, 1], 1 / (1 + np.exp(-1)))


@pytest.mark.parametrize("name", CASES)
def test_naive_forms_against_truth(name):
    """naive, naive_scaled and naive_masked on every input; float32 limits, half ones in half."""
    case = CASES[name]()
    k, v = case.kv_repeated
    truth, _ = attention_float64(case.q, case.k, case.v, causal=case.causal)
    limit = 2e-2 if case.q.dtype == np.float16 else 3e-5
    limit *= max(1, np.abs(truth).max(initial=0))
    o = naive_masked(case.q, k, v, case.allowed)
    assert o.dtype == case.q.dtype
    np.testing.assert_allclose(o, truth, rtol=0, atol=limit)
    if case.allowed.all() and k.shape[-2]:
        assert naive(case.q, k, v).dtype == case.q.dtype
        np.testing.assert_allclose(naive(case.q, k, v), truth, rtol=0, atol=limit)
        o = naive_scaled(case.q, k, v, scale=np.float64(0.3))
        assert o.dtype == case.q.dtype  # a float64 scale must not promote
        truth, _ = attention_float64(case.q, k, v, scale=0.3)
        np.testing.assert_allclose(o, truth, rtol=0, atol=limit)


@pytest.mark.parametrize("form", EAGER)
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_eager_forms_against_truth(form, lead):
    """In 2-D, 3-D and 4-D, contiguous and transposed."""
    case = normal(37, 50, 16, lead=lead)
    truth, _ = attention_float64(case.q, case.k, case.v)
    q, k, v = map(torch.from_numpy, (case.q, case.k, case.v))
    np.testing.assert_allclose(form(q, k, v), truth, rtol=0, atol=1e-5)
    q, k, v = (x.mT.contiguous().mT for x in (q, k, v))
    np.testing.assert_allclose(form(q, k, v), truth, rtol=0, atol=1e-5)


def test_numpy_attention_needs_no_torch():
    """What computes in NumPy runs without torch and triton."""
    code = (
        "import course_lib.attention, sys;"
        "sys.exit(' '.join({'torch', 'triton', 'matplotlib', 'IPython'} & set(sys.modules)) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_the_tolerance_refuses_what_it_must():
    """Zeros, mean(V), V, the input, NaN and a wrong dtype do not pass as attention."""
    case = normal(40, 40, 16)
    truth, lse = attention_float64(case.q, case.k, case.v)
    eager = naive(case.q, case.k, case.v)
    assert_as_good_as_eager(eager, eager, truth)
    mean = np.broadcast_to(case.v.mean(0), truth.shape)
    for wrong in (0 * eager, mean, case.v, case.q, eager * np.nan, truth, eager[:-1]):
        with pytest.raises(AssertionError):
            assert_as_good_as_eager(wrong, eager, truth)
    with pytest.raises(AssertionError):
        assert_lse(lse / np.log(2), lse)
