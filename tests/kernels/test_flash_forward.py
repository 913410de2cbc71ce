"""The reference kernel against float64, held to the course's standard of correctness.

The standard: the error may be twice that of PyTorch's eager attention in the same dtype, plus
1e-5 in float32, twice the rounding of the truth in half types; lse to float32 rounding.
"""

from __future__ import annotations

import pytest
import torch

from course_lib.attention.truth import attention_float64
from course_lib.kernels.flash_forward import flash_attention_with_lse


def eager(q, k, v, allowed):
    """Three lines of PyTorch in the input's own dtype, K and V repeated for grouped heads."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    s = (q @ k.mT) * q.shape[-1] ** -0.5
    return torch.softmax(s.masked_fill(~allowed, float("-inf")), dim=-1) @ v


def assert_right(q, k, v, *, causal=False, **tiles):
    o, lse = flash_attention_with_lse(q, k, v, causal=causal, **tiles)
    truth, lse_truth = (torch.from_numpy(x) for x in attention_float64(q, k, v, causal=causal))
    n_q, n_k = q.shape[2], k.shape[2]
    allowed = torch.ones(n_q, n_k, dtype=torch.bool, device=q.device)
    if causal:
        allowed = allowed.tril(n_k - n_q)
    seen = allowed.any(1).cpu()
    assert (o.shape, o.dtype, o.device) == (q.shape, q.dtype, q.device)
    assert (lse.shape, lse.dtype, lse.device) == (q.shape[:3], torch.float32, q.device)
    o, lse = o.cpu(), lse.cpu()

    rounded = truth.to(q.dtype)
    limit = 1e-5 if q.dtype == torch.float32 else 2 * (rounded - truth).abs().max()
    if seen.any():
        off = (eager(q, k, v, allowed).cpu() - truth).abs()[:, :, seen]
        limit = limit + 2 * off.max()
    error = (o - truth).abs()
    assert (error <= limit).all(), f"o is off by {error.max():.2e}, allowed {limit:.2e}"
    lse_error = (lse - lse_truth).abs()[:, :, seen]
    scale = lse_truth[:, :, seen].abs().max() if seen.any() else 0
    assert (lse_error <= 2e-5 + 2e-6 * scale).all()
    assert (o[:, :, ~seen] == 0).all()
    assert (lse[:, :, ~seen] == float("-inf")).all()


def normal(n_q, n_k, d, *, heads=1, kv_heads=None, batch=1, dtype=torch.float32, factor=1.0):
    made = torch.Generator().manual_seed(n_q * 1009 + n_k * 31 + d)
    q = torch.randn(batch, heads, n_q, d, generator=made) * factor
    k = torch.randn(batch, kv_heads or heads, n_k, d, generator=made) * factor
    v = torch.randn(batch, kv_heads or heads, n_k, d, generator=made)
    return q.to(dtype), k.to(dtype), v.to(dtype)


SHAPES = [  # n_q, n_k, d, block_q, block_k: all different, ragged, wide, one query, one key
    (70, 52, 16, 32, 64),
    (40, 90, 32, 64, 16),
    (19, 83, 64, 16, 32),
    (1, 65, 32, 16, 16),
    (33, 1, 16, 32, 32),
    (64, 64, 16, 16, 32),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
@pytest.mark.parametrize(("n_q", "n_k", "d", "block_q", "block_k"), SHAPES)
def test_right_for_ragged_lengths_and_rows_without_a_key(
    n_q, n_k, d, block_q, block_k, dtype, causal
):
    q, k, v = normal(n_q, n_k, d, dtype=dtype)
    assert_right(q, k, v, causal=causal, block_q=block_q, block_k=block_k)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
def test_right_where_scores_are_large(dtype):
    q, k, v = normal(33, 70, 32, dtype=dtype, factor=4)
    assert_right(q, k, v, block_q=16, block_k=64)
    assert_right(q, -q.abs().mean() * k.abs(), v, block_q=16, block_k=64)
    scores = torch.linspace(-150, -111, 70)
    for order in (scores, scores.flip(0), scores + 260):  # far below -110, far above +100
        q = torch.zeros(1, 1, 20, 16, dtype=dtype)
        k = torch.zeros(1, 1, 70, 16, dtype=dtype)
        q[..., 0], k[..., 0] = 4.0, order.to(dtype)
        assert_right(q, k, v[..., :16], block_q=32, block_k=16)


def test_a_long_row_of_large_values_does_not_overflow_in_half_precision():
    """Uniform scores and V near 100: a float16 accumulator would pass 65504."""
    q, k, v = normal(16, 1024, 16, dtype=torch.float16)
    assert_right(0 * q, k, v + 100, block_q=16, block_k=128)


def test_batch_grouped_heads_and_any_strides():
    q, k, v = normal(21, 40, 16, heads=4, kv_heads=2, batch=2)
    packed = torch.randn(2, 40, 2, 3, 16)  # (B, N, H, 3, d), as a fused projection gives it
    assert_right(q, k, v, causal=True, block_q=16, block_k=32)
    views = [packed[:, :, :, i].transpose(1, 2) for i in range(3)]
    assert_right(*views, causal=True, block_q=32, block_k=16)
    transposed = [x.mT.contiguous().mT for x in (q, k, v)]
    assert_right(*transposed, block_q=32, block_k=32)
    assert_right(q, k[:, :1, :1].expand(-1, 2, 40, -1), v, block_q=32, block_k=64)


def test_no_query_no_key_and_no_batch():
    q, k, v = normal(5, 7, 16)
    o, lse = flash_attention_with_lse(q, k[:, :, :0], v[:, :, :0])
    assert (o == 0).all()
    assert (lse == float("-inf")).all()
    assert flash_attention_with_lse(q[:, :, :0], k, v)[0].shape == (1, 1, 0, 16)
    assert flash_attention_with_lse(q[:0], k[:0], v[:0])[1].shape == (0, 1, 5)


def test_inputs_are_left_alone():
    q, k, v = normal(20, 20, 16)
    copies = [x.clone() for x in (q, k, v)]
    flash_attention_with_lse(q, k, v, causal=True)
    assert all(torch.equal(x, copy) for x, copy in zip((q, k, v), copies, strict=True))


def bad(**changes):
    q, k, v = normal(20, 20, 16, heads=2)
    return {"q": q, "k": k, "v": v} | changes


X = torch.zeros(1, 2, 20, 16)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"q": [1.0]}, TypeError, "q must be a torch.Tensor"),
        ({"k": X[0]}, ValueError, "k must have shape"),
        ({"v": X.half()}, TypeError, "v must have q's dtype"),
        ({"k": X.to("meta")}, ValueError, "k must be on q's device"),
        ({"q": X.double(), "k": X.double(), "v": X.double()}, TypeError, "float32, float16"),
        ({"v": X[:, :, :5]}, ValueError, "v must have k's shape"),
        ({"k": X.repeat(2, 1, 1, 1), "v": X.repeat(2, 1, 1, 1)}, ValueError, "q's batch 1"),
        ({"k": torch.cat([X, X[:, :1]], 1), "v": torch.cat([X, X[:, :1]], 1)}, ValueError, "heads"),
        (dict.fromkeys("qkv", X[..., :12]), ValueError, "head_dim must be a power of two"),
        ({"block_q": 48}, ValueError, "block_q must be a power of two"),
        ({"block_k": 8}, ValueError, "block_k must be a power of two and at least 16, got 8"),
        ({"block_k": 16.0}, ValueError, "block_k must be a power of two"),
    ],
)
def test_bad_input_gets_a_sentence(changes, error, words):
    with pytest.raises(error, match=words):
        flash_attention_with_lse(**bad(**changes))


@pytest.mark.skipif(torch.cuda.is_available(), reason="bfloat16 is right where kernels compile")
def test_bfloat16_is_refused_in_the_interpreter_which_gets_it_silently_wrong():
    with pytest.raises(TypeError, match="raw bits"):
        flash_attention_with_lse(X.bfloat16(), X.bfloat16(), X.bfloat16())


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [16, 32, 64, 128])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16], ids=["fp32", "fp16", "bf16"]
)
def test_compiled_for_this_gpu(dtype, d, causal):
    """bf16 and fp32 (true fp32: no TF32) too; lengths ragged and different; grouped heads."""
    torch.backends.cuda.matmul.allow_tf32 = False
    block = 32 if dtype == torch.float32 else 64
    for n_q, n_k in ((257, 300), (300, 129), (1, 77), (1024, 1024)):
        q, k, v = (x.cuda() for x in normal(n_q, n_k, d, heads=4, kv_heads=2, batch=2, dtype=dtype))
        assert_right(q, k, v, causal=causal, block_q=block, block_k=block)
        assert_right(4 * q, 4 * k, v, causal=causal, block_q=block, block_k=32)


@pytest.mark.gpu
def test_compiled_with_strides_and_the_default_tiles():
    packed = torch.randn(2, 200, 4, 3, 64, device="cuda").half()
    q, k, v = (packed[:, :, :, i].transpose(1, 2) for i in range(3))
    assert_right(q, k, v, causal=True)
    assert_right(q.float(), k.float(), v.float())
