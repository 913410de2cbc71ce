"""The public operator against float64, forward and backward, and as a citizen of PyTorch.

The standard: o within 2x, gradients within 3x the error of eager PyTorch in the same dtype, plus
1e-5 in float32 and twice (three times) the rounding of the truth in half types.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from course_lib.attention.truth import attention_float64
from course_lib.kernels import attention_backward, attention_forward, launch
from course_lib.kernels.attention_op import flash_attention
from course_lib.kernels.flash_forward import DTYPES

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HERE = DTYPES if torch.cuda.is_available() else DTYPES[:2]  # the interpreter has no bfloat16


def make(n_q, n_k, d, *, heads=1, kv_heads=None, batch=1, dtype=torch.float32, factor=1.0):
    made = torch.Generator().manual_seed(n_q * 1009 + n_k * 31 + d)
    shapes = ((heads, n_q), (kv_heads or heads, n_k), (kv_heads or heads, n_k))
    q, k, v = (torch.randn(batch, *shape, d, generator=made) for shape in shapes)
    return [x.to(DEVICE, dtype) for x in (q * factor, k * factor, v)]


def allowed_pairs(n_q, n_k, causal, window):
    allowed = torch.ones(n_q, n_k, dtype=torch.bool, device=DEVICE)
    if causal:
        allowed = allowed.tril(n_k - n_q)
    if window is not None:
        allowed = allowed.triu(n_k - n_q - window + 1)
    return allowed


def eager(q, k, v, allowed, scale):
    """Attention in the input's own dtype; rows without a key give 0 and no gradient."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    s = (q @ k.mT * scale).masked_fill(~allowed, float("-inf"))
    return torch.softmax(s, -1).masked_fill(~allowed.any(1)[:, None], 0.0).nan_to_num() @ v


def assert_right(q, k, v, *, causal=False, window=None, scale=None):
    o, lse = flash_attention(q, k, v, causal=causal, window=window, scale=scale, return_lse=True)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    allowed = allowed_pairs(q.shape[2], k.shape[2], causal, window)
    truth, lse_truth = (
        torch.from_numpy(x) for x in attention_float64(q, k, v, allowed=allowed, scale=scale)
    )
    seen = allowed.any(1).cpu()
    assert (o.shape, o.dtype, o.device) == (q.shape, q.dtype, q.device)
    assert (lse.shape, lse.dtype, lse.device) == (q.shape[:3], torch.float32, q.device)
    o, lse = o.cpu(), lse.cpu()
    rounding = (truth.to(q.dtype) - truth).abs().max() if truth.numel() else 0
    off = (eager(q, k, v, allowed, scale).cpu() - truth).abs()[:, :, seen]
    limit = (1e-5 if q.dtype == torch.float32 else 2 * rounding) + 2 * (
        off.max() if off.numel() else 0
    )
    error = (o - truth).abs()
    assert (error <= limit).all(), f"o is off by {error.max():.2e}, allowed {limit:.2e}"
    lse_error = (lse - lse_truth).abs()[:, :, seen]
    size = lse_truth[:, :, seen].abs().max() if seen.any() else 0
    assert (lse_error <= 2e-5 + 2e-6 * size).all()
    assert (o[:, :, ~seen] == 0).all()
    assert (lse[:, :, ~seen] == float("-inf")).all()


def gradients(call, inputs, do, dlse=None):
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    out = call(*inputs)
    if dlse is None:
        return torch.autograd.grad(out, inputs, do)
    return torch.autograd.grad(out, inputs, (do, dlse))


def assert_gradients_right(q, k, v, *, causal=False, window=None, scale=None):
    settings = {"causal": causal, "window": window, "scale": scale}
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    allowed = allowed_pairs(q.shape[2], k.shape[2], causal, window)
    do = torch.randn(q.shape, generator=torch.Generator().manual_seed(7)).to(DEVICE, q.dtype)
    mine = gradients(lambda *x: flash_attention(*x, **settings), (q, k, v), do)
    plain = gradients(lambda *x: eager(*x, allowed, factor), (q, k, v), do)
    wide = (x.double() for x in (q, k, v))
    truth = gradients(lambda *x: eager(*x, allowed, factor), wide, do.double())
    for name, got, other, true in zip(("dq", "dk", "dv"), mine, plain, truth, strict=True):
        assert got.shape == true.shape
        assert got.dtype == q.dtype
        rounding = (true.to(q.dtype) - true).abs().max()
        atol = max(1e-5, 0 if q.dtype == torch.float32 else 3 * rounding)
        limit = 3 * (other - true).abs().max() + atol
        error = (got - true).abs()
        assert (error <= limit).all(), f"{name} is off by {error.max():.2e}, allowed {limit:.2e}"


SHAPES = [  # n_q, n_k, d, heads, kv_heads
    (70, 52, 16, 1, 1),
    (40, 90, 32, 4, 2),
    (33, 1, 16, 1, 1),
    (1, 65, 64, 2, 1),
    (64, 64, 96, 1, 1),
]
MASKS = [(False, None), (True, None), (True, 1), (True, 20)]
CASES = [  # in half precision one mask for each shape is fast, every mask for some shape
    pytest.param(
        *shape,
        dtype,
        *mask,
        id=f"{'-'.join(map(str, shape))}-{dtype}-{mask[0]}-{mask[1]}",
        marks=[] if dtype is torch.float32 or i % len(MASKS) == j else [pytest.mark.slow],
    )
    for i, shape in enumerate(SHAPES)
    for dtype in HERE
    for j, mask in enumerate(MASKS)
]


@pytest.mark.parametrize(
    ("n_q", "n_k", "d", "heads", "kv_heads", "dtype", "causal", "window"), CASES
)
@pytest.mark.few(8)
def test_forward_and_gradients(n_q, n_k, d, heads, kv_heads, dtype, causal, window):
    q, k, v = make(n_q, n_k, d, heads=heads, kv_heads=kv_heads, batch=2, dtype=dtype)
    assert_right(q, k, v, causal=causal, window=window)
    assert_gradients_right(q, k, v, causal=causal, window=window)


@pytest.mark.parametrize(("causal", "window"), MASKS)
def test_more_than_one_tile_each_way_in_half_precision(causal, window):
    q, k, v = make(150, 210, 16, dtype=torch.float16)
    assert_right(q, k, v, causal=causal, window=window)
    assert_gradients_right(q, k, v, causal=causal, window=window and 70)


BOTH_LENGTHS = [  # with more queries than keys (rows without a key) the causal mask alone is fast
    pytest.param(
        n_q, n_k, *mask, marks=[pytest.mark.slow] if n_q > n_k and mask != MASKS[1] else []
    )
    for n_q, n_k in ((40, 101), (75, 70))
    for mask in MASKS
]


@pytest.mark.parametrize(("n_q", "n_k", "causal", "window"), BOTH_LENGTHS)
@pytest.mark.few(2)
def test_the_backward_by_descriptors(n_q, n_k, causal, window, monkeypatch):
    """What runs on sm_90 for head_dim 128, here with smaller tiles and on any device."""
    monkeypatch.setattr(attention_backward, "by_descriptors", lambda *tensors: True)
    q, k, v = make(n_q, n_k, 32, heads=4, kv_heads=2, batch=2)
    assert_gradients_right(q, k, v, causal=causal, window=window)


def test_head_dim_256_and_a_scale_of_ones_own():
    q, k, v = make(20, 37, 256)
    assert_right(q, k, v, causal=True)
    assert_right(q, k, v, scale=0.3)
    assert_gradients_right(q, k, v, scale=0.02)


def test_large_scores():
    q, k, v = make(33, 70, 32, factor=4)
    assert_right(q, k, v)
    assert_right(q, -k.abs(), v, causal=True)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 96, 128, 256])
def test_views_of_one_projection_by_the_kernels_for_hopper(d, causal):
    """As a model gives them: no copy is made of what the copy engine can fetch as it lies."""
    rows = torch.randn(2, 1300, 16 + 2 * 4, d, device="cuda").bfloat16().transpose(1, 2)
    q, k, v = rows.split((16, 4, 4), 1)
    if torch.cuda.get_device_capability() == (9, 0):
        assert attention_forward.by_hand(q, k, v)
    assert_right(q, k, v, causal=causal)
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]
    do = torch.randn(2, 1300, 16, d, device="cuda").bfloat16().transpose(1, 2)
    mine = torch.autograd.grad(flash_attention(*inputs, causal=causal), inputs, do)
    same = [x.detach().contiguous().requires_grad_() for x in (q, k, v)]
    other = torch.autograd.grad(flash_attention(*same, causal=causal), same, do.contiguous())
    for got, wanted in zip(mine, other, strict=True):
        torch.testing.assert_close(got, wanted)  # the sum over dQ may differ in its last bits


def test_any_strides_in_and_gradients_of_any_strides():
    packed = torch.randn(2, 40, 2, 3, 16, device=DEVICE)
    q, k, v = (packed[:, :, :, i].transpose(1, 2) for i in range(3))
    assert_right(q, k, v, causal=True)
    assert_gradients_right(q.mT.contiguous().mT, k, v)
    x = q.detach().clone().requires_grad_()
    flash_attention(x, x, x).sum().backward()  # the gradient of sum() has strides 0
    assert x.grad.isfinite().all()


def test_the_gradient_through_lse():
    q, k, v = make(40, 52, 16, heads=2)
    do, dlse = torch.randn_like(q), torch.randn(q.shape[:3], device=DEVICE)

    def plain(q, k, v):
        s = q @ k.mT * 16**-0.5
        return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)

    mine = gradients(lambda *x: flash_attention(*x, return_lse=True), (q, k, v), do, dlse)
    wide = (x.double() for x in (q, k, v))
    truth = gradients(plain, wide, do.double(), dlse.double())
    for got, true in zip(mine, truth, strict=True):
        assert (got - true).abs().max() <= 1e-5


def test_no_query_and_no_key():
    q, k, v = make(5, 7, 16)
    o, lse = flash_attention(q, k[:, :, :0], v[:, :, :0], return_lse=True)
    assert (o == 0).all()
    assert (lse == float("-inf")).all()
    assert flash_attention(q[:, :, :0], k, v).shape == (1, 1, 0, 16)


def test_a_citizen_of_torch_library():
    """opcheck: schema, autograd registration, fake tensor, and both under AOT dispatch."""
    q, k, v = (x.requires_grad_() for x in make(20, 33, 16, heads=2, kv_heads=1))
    op = torch.ops.flashattention_course.attention.default
    torch.library.opcheck(op, (q, k, v, True, 5, 0.25))
    o, lse = op(q, k, v, False, None, 0.25)
    backward = torch.ops.flashattention_course.attention_backward.default
    saved = [x.detach() for x in (q, k, v, o, lse, torch.randn_like(o), torch.zeros_like(lse))]
    torch.library.opcheck(backward, (*saved, False, None, 0.25))


def test_traced_whole_by_torch_compile():
    q, k, v = make(20, 20, 16)
    backend = "inductor" if torch.cuda.is_available() else "aot_eager"

    @torch.compile(fullgraph=True, backend=backend)
    def layer(q, k, v):
        return flash_attention(q * 2, k, v, causal=True).relu()

    do = torch.randn_like(q)
    compiled = gradients(layer, (q, k, v), do)
    plain = gradients(
        lambda q, k, v: flash_attention(q * 2, k, v, causal=True).relu(), (q, k, v), do
    )
    for got, expected in zip(compiled, plain, strict=True):
        assert (got - expected).abs().max() <= 1e-6


def test_the_compiler_is_not_imported_for_the_mark_that_it_reads():
    """`flash_forward` marks `interpreted` by hand as `assume_constant_result` would."""
    from course_lib.kernels.flash_forward import interpreted

    assert vars(interpreted) == vars(torch.compiler.assume_constant_result(lambda: None))
    code = "import sys, course_lib.kernels.attention_op; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_second_derivative_is_refused_in_a_sentence():
    q, k, v = (x.requires_grad_() for x in make(20, 20, 16))
    (dq,) = torch.autograd.grad(flash_attention(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated once"):
        dq.sum().backward()


X = torch.zeros(1, 2, 20, 16)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"q": [1.0]}, TypeError, "q must be a torch.Tensor"),
        ({"k": X[0]}, ValueError, "k must have shape"),
        ({"v": X.half()}, TypeError, "v must have q's dtype"),
        (dict.fromkeys("qkv", X[..., :12]), ValueError, "head_dim must be one of 16, 32"),
        ({"window": 4}, ValueError, "window needs causal=True"),
        ({"window": 0, "causal": True}, ValueError, "window must be a whole number"),
        ({"window": 2.5, "causal": True}, ValueError, "window must be a whole number"),
        ({"scale": float("nan")}, ValueError, "scale must be a finite number"),
    ],
)
def test_bad_input_gets_a_sentence(changes, error, words):
    with pytest.raises(error, match=words):
        flash_attention(**({"q": X, "k": X, "v": X} | changes))


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [16, 32, 64, 96, 128, 256])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("small", [True, False])
def test_compiled_for_this_gpu(dtype, d, causal, small, monkeypatch):
    """By pointers, as so little is done anyway, and by what large calls choose."""
    if not small:
        monkeypatch.setattr(attention_forward, "SMALL", {})
        monkeypatch.setattr(attention_backward, "FEWEST", 0)
    torch.backends.cuda.matmul.allow_tf32 = False
    for n_q, n_k in ((257, 300), (300, 129), (1, 77), (512, 512)):
        q, k, v = make(n_q, n_k, d, heads=4, kv_heads=2, batch=2, dtype=dtype)
        for window in (None, 100) if causal else (None,):
            assert_right(q, k, v, causal=causal, window=window)
            assert_gradients_right(q, k, v, causal=causal, window=window)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n_k", [2500, 2600])
@pytest.mark.parametrize("d", [64, 96, 128, 256])
def test_few_keys_and_many_keys_on_this_gpu(d, n_k, causal, monkeypatch):
    """Which kernel is called depends on the number of keys, and on how much there is to do."""
    monkeypatch.setattr(attention_forward, "SMALL", {})
    q, k, v = make(300, n_k, d, heads=4, kv_heads=2, dtype=torch.bfloat16)
    assert_right(q, k, v, causal=causal)


@pytest.mark.gpu
@pytest.mark.parametrize("scale", [-0.125, 0.0])
@pytest.mark.parametrize("d", [64, 96, 128, 256])
def test_any_finite_scale_on_this_gpu(d, scale, monkeypatch):
    """The rungs by hand scale the maximum, which is right for a scale above 0 only."""
    monkeypatch.setattr(attention_forward, "SMALL", {})
    q, k, v = make(300, 300, d, heads=2, dtype=torch.bfloat16)
    assert_right(q, k, v, causal=True, scale=scale)


@pytest.mark.gpu
def test_the_same_bits_in_every_run_for_whoever_asks(monkeypatch):
    """The fast kernel adds dQ up in memory, in no order; then it is not taken."""
    monkeypatch.setattr(attention_backward, "FEWEST", 0)
    inputs = make(1000, 1000, 128, heads=8, dtype=torch.bfloat16)
    do = torch.randn_like(inputs[0])

    def attend(*x):
        return flash_attention(*x, causal=True)

    torch.use_deterministic_algorithms(True)
    try:
        first, *others = (gradients(attend, inputs, do) for _ in range(4))
    finally:
        torch.use_deterministic_algorithms(False)
    for other in others:
        assert all(torch.equal(x, y) for x, y in zip(first, other, strict=True))
    assert_alike(gradients(attend, inputs, do), first)


def assert_alike(got, expected):
    """Equal but for the order of sums: where dQ is added up in memory, that differs by the run."""
    for x, y in zip(got, expected, strict=True):
        assert (x - y).abs().max() <= 2**-7 * y.abs().max()


SMALL_AND_LARGE = [(128, 64), (128, 128), (2000, 64), (1500, 128), (600, 256)]  # n, d


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "d"), SMALL_AND_LARGE)
def test_a_second_call_does_not_look_at_its_arguments_again(n, d, monkeypatch):
    """Triton's own launch takes most of a small call's host time."""

    def call(q, k, v, do):
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]
        o = flash_attention(*inputs, causal=True)
        return o, *torch.autograd.grad(o, inputs, do)

    first, second = (make(n, n, d, heads=8, dtype=torch.bfloat16) for _ in range(2))
    second = [x + 1 for x in second]
    do = torch.randn_like(first[0])
    expected = call(*second, do)
    launch._known.clear()
    call(*first, do)
    monkeypatch.setattr(type(attention_backward.dq_kernel), "run", None)
    assert_alike(call(*second, do), expected)


@pytest.mark.gpu
def test_what_is_remembered_is_not_used_for_another_call():
    """Strides, a length of one, an address that is not divisible by 16: other machine code."""
    wide = torch.randn(2, 4, 200, 65, device="cuda", dtype=torch.bfloat16)
    for x in (wide[..., :64], wide[..., 1:], wide[..., :64].contiguous(), wide[:1, :, :1, :64]):
        for _ in range(2):
            assert_right(x, x, x, causal=True)
            assert_right(x, x[:, :2], x[:, 2:])


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "d"), SMALL_AND_LARGE)
def test_captured_in_a_cuda_graph_and_replayed_on_other_numbers(n, d):
    q, k, v = (x.requires_grad_() for x in make(n, n, d, heads=8, dtype=torch.bfloat16))
    do = torch.randn_like(q)

    def step():
        o = flash_attention(q, k, v, causal=True)
        return o, *torch.autograd.grad(o, (q, k, v), do)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # compiles, as every capture needs it
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for x in (q, k, v, do):
            x.copy_(torch.randn_like(x))
    graph.replay()
    assert_alike(captured, step())


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize(("n", "d"), SMALL_AND_LARGE)
def test_compiled_whole_in_half_precision_on_this_gpu(n, d, mode):
    """Triton's knobs, which bfloat16 asks, must not break the graph."""
    torch._dynamo.reset()  # each case is a function of its own, and there is a limit
    q, k, v = make(n, n, d, heads=8, dtype=torch.bfloat16)
    layer = torch.compile(lambda *x: flash_attention(*x, causal=True), fullgraph=True, mode=mode)
    do = torch.randn_like(q)
    plain = gradients(lambda *x: flash_attention(*x, causal=True), (q, k, v), do)
    for _ in range(3):  # warm-up, recording, replay
        assert_alike(gradients(layer, (q, k, v), do), plain)
