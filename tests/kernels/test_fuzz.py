"""A handful of the random cases of `tests/kernels/fuzz.py`, and proof that its judge can say no."""

from __future__ import annotations

import math

import pytest
import torch
from kernels.fuzz_cases import CONTRACTS, draw, tensors
from kernels.fuzz_judge import DEVICE, ratios, visible
from kernels.fuzz_limits import forward_ratios, gradient_limits, over, unresolved

from course_lib.kernels import attention_op
from course_lib.kernels.attention_op import flash_attention

SMALL = not torch.cuda.is_available()
EACH = {"flash_attention": 10, "flash_decode": 4, "paged_decode": 4, "teaching kernel": 4}
NAMES = [
    f"1/{kernel}/{number % 4}/{number}"
    for kernel in CONTRACTS
    if kernel != "rung 8"
    for number in range(EACH.get(kernel, 2))
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.few(24)
def test_a_random_case_is_as_right_as_eager_attention(name):
    found = ratios(draw(name, small=SMALL))
    assert found
    assert all(ratio <= 1 for ratio in found.values()), found


def test_a_name_is_a_case_and_another_name_another():
    cases = [draw(name, small=True) for name in NAMES]
    assert cases == [draw(name, small=True) for name in NAMES]
    for trait in ("dtype", "d", "values", "layout", "causal", "heads"):
        assert len({getattr(case, trait) for case in cases}) > 1, trait
    assert any(case.causal and case.n_q > case.n_k for case in cases), "no row without a key"


WRONG = {
    "zeros": lambda o, v: 0 * o,
    "the mean of V": lambda o, v: v.mean(2, keepdim=True).expand_as(o),
    "V itself": lambda o, v: v[:, :, : o.shape[2]],
    "one NaN": lambda o, v: o.masked_fill(torch.arange(o.numel(), device=DEVICE).view_as(o) == 9,
                                          math.nan),
    "one tile of rows a little off": lambda o, v: torch.cat([o[:, :, :32], o[:, :, 32:] * 1.01], 2),
    "rows without a key unwritten": lambda o, v: o + 1e-30,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
@pytest.mark.parametrize("mistake", WRONG)
def test_the_judge_refuses_what_is_wrong(mistake, dtype):
    torch.manual_seed(0)
    q, v = (torch.randn(1, 2, n, 16, device=DEVICE, dtype=dtype) for n in (70, 70))
    k = torch.randn(1, 2, 60, 16, device=DEVICE, dtype=dtype)
    gap = torch.arange(70)[:, None] - 10 - torch.arange(60)
    setup = (q, k, v[:, :, :60], (gap >= 0).to(DEVICE), 0.25)
    o, lse = flash_attention(q, k, v[:, :, :60], causal=True, return_lse=True)
    good = forward_ratios(o, lse, *setup)
    assert max(good.values()) <= 1
    if dtype == torch.float32 or "unwritten" not in mistake:  # 1e-30 is 0 in half precision
        bad = forward_ratios(WRONG[mistake](o, v), lse, *setup)
        assert bad["o"] > 1
    off = forward_ratios(o, lse + 1e-3, *setup)
    assert off["lse"] > 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda dq, dk, dv, dsinks: (2 * dq, dk, dv, dsinks),
        lambda dq, dk, dv, dsinks: (dq, dv, dk, dsinks),
        lambda dq, dk, dv, dsinks: (dq, dk, 0 * dv, dsinks),
    ],
    ids=["dq doubled", "dk and dv swapped", "dv zero"],
)
def test_the_judge_refuses_wrong_gradients(spoil, monkeypatch):
    case = next(
        case
        for case in (draw(f"3/flash_attention/{i}/0", small=True) for i in range(99))
        if case.values == "normal" and case.d <= 32 and 1 < case.n_k < 40 and 1 < case.n_q < 40
    )
    assert max(ratios(case).values()) <= 1
    right = attention_op.flash_backward
    monkeypatch.setattr(attention_op, "flash_backward", lambda *a, **b: spoil(*right(*a, **b)))
    assert max(ratios(case).values()) > 1


@pytest.mark.parametrize("d", [16, 64, 256])
def test_what_float32_scores_leave_open(d):
    """A large product, then small ones, added one at a time: each sum is rounded at that size."""
    made = torch.Generator().manual_seed(d)
    products = torch.randn(4096, d, generator=made)
    products[:, 0] += 1e4
    off = _one_at_a_time(products) - products.double().sum(1)
    assert 0.3 < float(off.square().mean().sqrt()) / unresolved(1e4, d) < 1


def test_with_one_key_the_gradient_of_q_is_what_two_sums_differ_in():
    """do . v is added up one at a time by the kernel, otherwise in delta; eager PyTorch has 0."""
    q, do = torch.zeros(1, 9, 337, 256), torch.randn(1, 9, 337, 256)
    k, v = torch.randn(2, 1, 9, 1, 256)
    dq = (_one_at_a_time(do * v) - (do * v).sum(-1))[..., None] * k / 8
    dlse, allowed = torch.zeros(q.shape[:3]), torch.ones(337, 1, dtype=torch.bool)
    (true, limit), *_ = gradient_limits(q, k, v, do, dlse, allowed, 1 / 8)
    assert not true.any()
    assert 0.01 < over(dq.double().abs(), limit) < 1


def _one_at_a_time(products: torch.Tensor) -> torch.Tensor:
    """Return sums over the last axis, each partial sum rounded."""
    total = torch.zeros(products.shape[:-1])
    for i in range(products.shape[-1]):
        total += products[..., i]
    return total


def test_layouts_change_strides_and_no_value():
    from kernels.fuzz_cases import LAYOUTS, laid_out

    x = torch.randn(2, 3, 5, 4)
    for layout in set(LAYOUTS) - {"contiguous", "expanded"}:
        assert laid_out(x, layout).stride() != x.stride()
        assert torch.equal(laid_out(x, layout), x)
    same = laid_out(x, "expanded")
    assert same.stride()[:2] == (0, 0)
    assert torch.equal(same[1, 2], x[0, 0])


def test_the_mask_is_aligned_at_the_end():
    case = next(
        case
        for case in (draw(f"2/flash_attention/{i}/0", small=True) for i in range(99))
        if case.window and case.n_q > 1 and case.n_k > case.window > 1
    )
    last = visible(case)[-1]
    assert int(last.sum()) == case.window
    assert bool(last[-1])
    assert tensors(case, "cpu")[0].shape == (case.batch, case.heads, case.n_q, case.d)
