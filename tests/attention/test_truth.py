"""What models ask of the float64 truth beside a mask, each against PyTorch where PyTorch has it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attention.inputs import normal
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention as sdpa

from course_lib.attention.masks import both, causal, document
from course_lib.attention.truth import attention_float64, packed_float64

SLOPES, SINKS = np.array([0.5, 0.25, 2.0]), np.array([1.5, -np.inf, 30.0])


def inputs(n_q, n_k, heads=3):
    case = normal(n_q, n_k, 8, lead=(heads,), dtype=np.float64)
    return (case.q, case.k, case.v), [torch.from_numpy(x) for x in (case.q, case.k, case.v)]


@pytest.mark.parametrize(("n_q", "n_k"), [(9, 9), (4, 11), (1, 6)])
def test_slopes_are_a_bias_for_distance(n_q, n_k):
    """Counted from the end: the last query stands beside the last key."""
    arrays, tensors = inputs(n_q, n_k)
    distance = (torch.arange(n_q)[:, None] + n_k - n_q - torch.arange(n_k)).abs()
    bias = -torch.from_numpy(SLOPES)[:, None, None] * distance
    o, _ = attention_float64(*arrays, slopes=SLOPES)
    np.testing.assert_allclose(o, sdpa(*tensors, attn_mask=bias), atol=1e-12)


@pytest.mark.parametrize(("n_q", "n_k"), [(5, 7), (7, 3), (3, 0)])
def test_a_sink_is_a_key_that_all_see_and_whose_value_is_zero(n_q, n_k):
    arrays, (q, k, v) = inputs(n_q, n_k)
    seen = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
    bias = torch.zeros(3, n_q, n_k, dtype=torch.float64).masked_fill(~seen, -torch.inf)
    sink = torch.from_numpy(SINKS)[:, None, None].expand(3, n_q, 1)
    more = (torch.cat([x, torch.zeros(3, 1, 8, dtype=torch.float64)], 1) for x in (k, v))
    expected = sdpa(q, *more, attn_mask=torch.cat([bias, sink], 2)).nan_to_num()
    s = torch.cat([q @ k.mT * 8**-0.5 + bias, sink], 2)
    o, lse = attention_float64(*arrays, causal=True, sinks=SINKS)
    np.testing.assert_allclose(o, expected, atol=1e-12)
    np.testing.assert_allclose(lse, torch.logsumexp(s, 2), atol=1e-12)


def test_a_soft_cap_comes_after_the_scale_and_before_the_slopes():
    arrays, (q, k, v) = inputs(6, 9)
    s = 2.0 * torch.tanh(q @ k.mT * 3.0 / 2.0)
    s = s - torch.from_numpy(SLOPES)[:, None, None] * (torch.arange(6)[:, None] + 3
                                                       - torch.arange(9)).abs()  # fmt: skip
    o, lse = attention_float64(*arrays, scale=3.0, softcap=2.0, slopes=SLOPES)
    np.testing.assert_allclose(o, torch.softmax(s, 2) @ v, atol=1e-12)
    np.testing.assert_allclose(lse, torch.logsumexp(s, 2), atol=1e-12)
    wide, _ = attention_float64(*arrays, softcap=1e9)
    np.testing.assert_allclose(wide, attention_float64(*arrays)[0], atol=1e-12)


@pytest.mark.slow
def test_cap_and_slopes_are_what_flex_attention_makes_of_them():
    from torch.nn.attention.flex_attention import flex_attention

    arrays, tensors = inputs(16, 16)
    slopes = torch.from_numpy(SLOPES)

    def bend(score, batch, head, i, j):
        return 2.0 * torch.tanh(score / 2.0) - slopes[head] * (i - j).abs()

    expected = flex_attention(*(x[None] for x in tensors), score_mod=bend)[0]
    o, _ = attention_float64(*arrays, softcap=2.0, slopes=SLOPES)
    np.testing.assert_allclose(o, expected, atol=1e-12)


LENGTHS = st.lists(st.integers(0, 7), min_size=1, max_size=5)


@settings(max_examples=30, deadline=None)
@given(lengths=LENGTHS.filter(sum))
def test_packed_sequences_are_the_documents_of_lesson_04(lengths):
    """One document mask over all says the same as one sequence after the other."""
    n = sum(lengths)
    (q, k, v), _ = inputs(n, n)
    mask = both(document([length for length in lengths if length]), causal()).dense(n, n)
    o, lse = attention_float64(q, k, v, allowed=mask, softcap=3.0, sinks=SINKS)
    starts = np.cumsum([0, *lengths])
    rows = (x.swapaxes(0, 1) for x in (q, k, v))
    packed = packed_float64(*rows, starts, starts, causal=True, softcap=3.0, sinks=SINKS)
    np.testing.assert_allclose(packed[0].swapaxes(0, 1), o, atol=1e-12)
    np.testing.assert_allclose(packed[1], lse, atol=1e-12)


def test_packed_rows_of_no_sequence_are_empty():
    (q, k, v), _ = inputs(6, 6)
    rows = [x.swapaxes(0, 1) for x in (q, k, v)]
    o, lse = packed_float64(*rows, [0, 2, 4], [0, 0, 6])
    assert not o[:2].any()
    assert not o[4:].any()
    assert (lse[:, [0, 1, 4, 5]] == -np.inf).all()
    np.testing.assert_allclose(o[2:4], attention_float64(q[:, 2:4], k, v)[0].swapaxes(0, 1))
