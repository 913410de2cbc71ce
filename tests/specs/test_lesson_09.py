"""Lesson 09: truths are autograd's, bytes are the models'.

Wrong submissions of all kinds, and right ones of other styles, are in ``tests/submissions/9.*``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from helpers import code, module_from, report_on, solutions, words_of

from course_lib import checking
from course_lib.accounting import backward_traffic as traffic
from course_lib.accounting.kernel_ledger import KernelLedger
from course_lib.accounting.traffic import derived_counts
from course_lib.attention.backward import backward
from course_lib.attention.masks import causal as causal_mask
from course_lib.attention.tiled import tiled
from course_lib.checking import report_for
from course_lib.judging.report import Verdict
from course_lib.judging.tolerance import as_float64
from course_lib.specs import find
from course_lib.specs.lesson_09 import (
    delta_and_dv,
    dropout,
    dropped,
    function,
    kernels,
    tile_gradients,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


# Null models ------------------------------------------------------------------------------------

NULLS = {
    "zeros": torch.zeros_like,
    "the input": torch.clone,
    "a mean": lambda x: x.mean(-2, keepdim=True).expand_as(x).contiguous(),
}


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.usefixtures("unnamed")
def test_null_models_fail(null):
    nothing = NULLS[null]

    def delta_and_dv(q, k, o, lse, do, *, causal=False, block_q=64, block_k=64):
        return (o * do).sum(-1).float(), nothing(do if do.shape == k.shape else k)

    def dk_and_dv(q, k, v, do, lse, delta, *, causal=False, block_q=64, block_k=64):
        return nothing(k), nothing(v)

    def dq_without_atomics(q, k, v, do, lse, delta, *, causal=False, block_q=64, block_k=64):
        return nothing(q)

    for launcher in (delta_and_dv, dk_and_dv, dq_without_atomics):
        assert report_for(launcher, seed=1).verdict is Verdict.INCORRECT


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.usefixtures("unnamed")
def test_a_right_forward_with_a_null_backward_fails(null):
    class Attention(solutions(9).Attention):
        @staticmethod
        def backward(ctx, do):
            return (*map(NULLS[null], ctx.saved_tensors[:3]), None)

    report = report_for(Attention, seed=1)
    assert report.verdict is Verdict.INCORRECT
    assert "gradient of `q` is wrong in 64 of 64 rows" in report.text()


@pytest.mark.parametrize("kind", [complex, np.longdouble])
@pytest.mark.few(1)
def test_gradients_by_nudging_every_number_do_not_come_to_an_end(kind, monkeypatch):
    """An imaginary step, or a difference of 19 digits: exact enough, but not five products."""
    monkeypatch.setattr(checking, "find", lambda _: replace(find("9.3"), seconds=2.0))
    step = 1e-30j if kind is complex else np.longdouble(1e-6)

    def tile_gradients(q_tile, k_tile, v_tile, do_tile, lse_row, delta_row, seen, scale):
        lse_row = np.where(np.isneginf(lse_row), np.inf, lse_row)
        moved = [x.astype(kind) for x in (q_tile, k_tile, v_tile)]

        def f():
            q, k, v = moved
            p = np.exp(np.where(seen, scale * q @ k.T, -np.inf) - lse_row[:, None])
            return (p * (do_tile @ v.T - delta_row[:, None])).sum()

        found = [np.zeros(x.shape) for x in moved]
        for x, slopes in zip(moved, found, strict=True):
            for at in np.ndindex(x.shape):
                here = x[at]
                x[at] = here + step
                up = f()
                x[at] = here - step
                slopes[at] = np.real((up - f()) / (2 * step))
                x[at] = here
        return tuple(found)

    report = report_for(tile_gradients, seed=1)
    assert report.failed_property == "comes to an end", report.text()
    assert "256 queries" in report.text()


# Truths -----------------------------------------------------------------------------------------


def autograd(q, k, v, do, *, causal):
    """Return what float64 autograd makes of softmax(q k^T) v; each row has a key."""
    leaves = [torch.from_numpy(as_float64(x)).requires_grad_() for x in (q, k, v)]
    s = leaves[0] @ leaves[1].mT * q.shape[-1] ** -0.5
    if causal:
        n_q, n_k = s.shape[-2:]
        hidden = torch.ones(n_q, n_k, dtype=torch.bool).triu(n_k - n_q + 1)
        s = s.masked_fill(hidden, -torch.inf)
    o = torch.softmax(s, -1) @ leaves[2]
    gradients = torch.autograd.grad(o, leaves, torch.from_numpy(as_float64(do)))
    return o.detach().numpy(), *(g.numpy() for g in gradients)


def test_the_truth_of_9_6_is_what_autograd_says_and_what_the_reference_says():
    seen = 0
    for case in find("9.6").cases(np.random.default_rng(2)):
        q, k, v, do = case.args
        if case.kwargs["causal"] and q.shape[-2] > k.shape[-2]:
            continue  # rows without a key: autograd makes NaN of them
        truth = function._truth(*case.args, **case.kwargs)
        for ours, theirs in zip(truth, autograd(q, k, v, do, **case.kwargs), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)
        seen += 1
    assert seen > 5


def test_the_truths_of_9_4_and_9_5_are_the_reference_s():
    for case in find("9.4").cases(np.random.default_rng(2)):
        q, k, v, do, *_ = (as_float64(x) for x in case.args)
        mask = causal_mask() if case.kwargs.get("causal") else None
        o, lse = tiled(q, k, v, mask=mask)
        wanted = backward(q, k, v, o, lse, do, mask=mask)
        found = kernels._of_kernel(kernels.Slip(), which=slice(None))(*case.args, **case.kwargs)
        for ours, theirs in zip(found, wanted, strict=True):
            near = 1e-4 * max(1.0, np.abs(theirs).max())  # lse and delta are float32
            np.testing.assert_allclose(ours, theirs, atol=near)


def test_the_truth_of_9_3_is_what_nudging_one_number_says():
    """The gradient of sum(exp(S - lse) (dP - delta)), by central differences in float64."""
    cases = find("9.3").cases(np.random.default_rng(4))
    for case in (cases[0], cases[2], cases[5]):
        *tile, seen, scale = case.args

        def total(q, k, v, do, lse, delta, seen=seen, scale=scale):
            p = np.exp(scale * q @ k.T - lse[:, None]) * seen
            return (p * (do @ v.T - delta[:, None])).sum()

        for which, gradient in enumerate(tile_gradients.TILE_GRADIENTS.truth(*case.args)):
            for at in np.ndindex(gradient.shape):
                moved = []
                for by in (1e-5, -1e-5):
                    inputs = [x.copy() for x in tile]
                    inputs[which][at] += by
                    moved.append(total(*inputs))
                assert gradient[at] == pytest.approx((moved[0] - moved[1]) / 2e-5, abs=1e-7)


def test_the_tiles_of_9_3_add_up_to_the_gradients():
    rng = np.random.default_rng(3)
    q, do = rng.standard_normal((2, 7, 4))
    k, v = rng.standard_normal((2, 9, 4))
    o, lse = tiled(q, k, v, mask=causal_mask())
    whole = backward(q, k, v, o, lse, do, mask=causal_mask())
    seen = causal_mask().dense(7, 9)
    parts = [np.zeros_like(x) for x in (q, k, v)]
    for rows in (slice(0, 4), slice(4, 7)):
        for keys in (slice(0, 5), slice(5, 9)):
            tile = (q[rows], k[keys], v[keys], do[rows], lse[rows], (do * o).sum(-1)[rows])
            added = solutions(9).tile_gradients(*tile, seen[rows, keys], 0.5)
            for total, where, one in zip(parts, (rows, keys, keys), added, strict=True):
                total[where] += one
    for ours, theirs in zip(parts, whole, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


# Bytes ------------------------------------------------------------------------------------------


@cache
def counted(causal):
    """Return the shape and the books of the solution's three launchers: 40 queries, 72 keys."""
    shape = {"n_q": 40, "n_k": 72, "d": 16, "heads": 2, "b": 4}
    shape |= {"block_q": 16, "block_k": 32, "causal": causal}
    make = torch.Generator().manual_seed(1)
    q, k, v, o, do = (torch.randn(1, 2, n, 16, generator=make) for n in (40, 72, 72, 40, 40))
    lse, delta = torch.randn(2, 1, 2, 40, generator=make)
    how = {"causal": causal, "block_q": 16, "block_k": 32}
    books = []
    with KernelLedger() as ledger:
        solutions(9).delta_kernel[(3, 2)](o, do, delta.clone(), 40, HEAD_DIM=16, BLOCK_Q=16)
    books.append(ledger)
    for launcher in (solutions(9).dk_and_dv, solutions(9).dq_without_atomics):
        with KernelLedger() as ledger:
            launcher(q, k, v, do, lse, delta, **how)
        books.append(ledger)
    return shape, books


@pytest.mark.parametrize("causal", [False, True])
def test_the_ledger_counts_what_the_models_say_to_the_byte(causal):
    shape, books = counted(causal)
    parts = (traffic.delta_loads, traffic.dk_dv_loads, traffic.dq_loads)
    for model, ledger in zip(parts, books, strict=True):
        assert {"read": dict(ledger.read), "written": dict(ledger.written)} == model.terms(**shape)
    assert sum(ledger.total for ledger in books) == traffic.backward_tile_loads.bytes(**shape)


@pytest.mark.parametrize("causal", [False, True])
def test_seven_products_a_visited_tile_are_counted(causal):
    """Whole tiles are multiplied, short last ones too: 2 heads, d = 16, tiles of 16 x 32."""
    _, books = counted(causal)
    visited = derived_counts(40, 72, 16, 32, causal)["visited_tiles"]
    assert sum(ledger.flops for ledger in books) == 2 * 7 * 2 * 16 * visited * 16 * 32


# 9.6 --------------------------------------------------------------------------------------------


def test_no_class_and_a_class_without_a_gradient_are_told_so():
    def Attention(q, k, v, causal):
        return q

    report = report_for(Attention, seed=1)
    assert report.failed_property == "is an autograd.Function"
    three = report_on("9.6/wrong/three_gradients")
    assert "number of gradients" in words_of(three)


@pytest.mark.parametrize("causal", [False, True])
def test_the_solution_passes_gradcheck_s_idea_in_float32(causal):
    """A step along a direction changes the loss by the gradient's share of it."""
    make = torch.Generator().manual_seed(7)
    q, k, v, do, *along = (torch.randn(1, 2, 40, 16, generator=make).to(DEVICE) for _ in range(7))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    apply = solutions(9).Attention.apply
    gradients = torch.autograd.grad(apply(*leaves, causal), leaves, do)
    with torch.no_grad():
        up, down = (
            (apply(*(x + e * a for x, a in zip(leaves, along, strict=True)), causal) * do).double()
            for e in (1e-2, -1e-2)
        )
    slope = float((up - down).sum()) / 2e-2
    said = float(sum((g * a).sum() for g, a in zip(gradients, along, strict=True)))
    assert said == pytest.approx(slope, rel=1e-2, abs=1e-2 * math.sqrt(do.numel()))


class Public(torch.autograd.Function):
    """The usual public contract on top of 9.6: 3-D inputs, lse the one saved (B, n) tensor."""

    @staticmethod
    def forward(ctx, q, k, v, is_causal=False):
        ctx.inner = Inner()
        heads = (x[:, None] for x in (q, k, v))
        o = solutions(9).Attention.forward(ctx.inner, *heads, is_causal)
        ctx.save_for_backward(*(x[:, 0] for x in ctx.inner.saved_tensors))
        return o[:, 0]

    @staticmethod
    def backward(ctx, do):
        ctx.inner.saved_tensors = tuple(x[:, None] for x in ctx.saved_tensors)
        found = solutions(9).Attention.backward(ctx.inner, do[:, None])
        return (*(x[:, 0] for x in found[:3]), None)


class Inner:
    """What forward writes on, in the place of a ctx."""

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors


@pytest.mark.parametrize("causal", [False, True])
def test_9_6_meets_the_usual_public_contract(causal):
    make = torch.Generator().manual_seed(0)
    q, k, v, do = (torch.randn(4, 128, 64, generator=make).to(DEVICE) for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    o = Public.apply(*leaves, causal)
    s = q @ k.mT / 8
    if causal:
        hidden = torch.ones(128, 128, dtype=torch.bool, device=DEVICE).triu(1)
        s = torch.where(hidden, -1e6, s)
    like_lse = [t for t in o.grad_fn.saved_tensors if t.shape == (4, 128)]
    assert len(like_lse) == 1
    torch.testing.assert_close(like_lse[0], torch.logsumexp(s, -1), rtol=1e-2, atol=1e-2)
    wanted = torch.softmax(s, -1) @ v
    torch.testing.assert_close(o, wanted, rtol=1e-2, atol=1e-2)
    mine, theirs = (torch.autograd.grad(x, leaves, do) for x in (o, wanted))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-2)


# 9★ ---------------------------------------------------------------------------------------------


def masks(rng, rate, shape=(2, 2, 64, 64)):
    kept = rng.random(shape) >= rate
    return dropped.Mask(kept / shape[-1] / (1 - rate), kept, np.ones(shape, dtype=bool))


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.7777])
@pytest.mark.few(1)
def test_masks_of_chance_are_never_complained_of(rate):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        one, other = masks(rng, rate), masks(rng, rate)
        assert dropped.rate_finding(one, rate) is None
        assert dropped.line_finding(one, rate) is None
        assert dropped.repeat_finding(one, other) is None


def test_a_rate_that_is_off_by_a_tenth_and_masks_that_repeat_are_found():
    rng = np.random.default_rng(1)
    one, other = masks(rng, 0.25), masks(rng, 0.25)
    assert dropped.rate_finding(one, 0.28) is not None
    assert dropped.repeat_finding(one, replace(one)).property == "the seed decides"
    kept = one.kept.copy()
    kept[1, 0, :, 16:] = kept[0, 1, :, :-16]
    repeated = dropped.Mask(one.weights, kept, one.shown)
    found = dropped.repeat_finding(repeated, other)
    assert found.property == "each weight has a number of its own"
    assert "key j + 16 of batch 1, head 0" in found.says
    turned = np.where(np.tri(64, dtype=bool), one.kept, one.kept.swapaxes(2, 3))
    found = dropped.repeat_finding(dropped.Mask(one.weights, turned, one.shown), other)
    assert found.property == "each weight has a number of its own"
    assert "query j, key i" in found.says


def test_lines_turned_heads_and_sums_are_found():
    rng = np.random.default_rng(1)
    one, other = masks(rng, 0.25), masks(rng, 0.25)

    def says(kept):
        return dropped.repeat_finding(dropped.Mask(one.weights, kept, one.shown), other).says

    kept = one.kept.copy()
    kept[0, 1] = kept[0, 0, :, ::-1]
    assert "of batch 0, head 1, the keys in the opposite order" in says(kept)
    kept = one.kept.copy()
    kept[..., 1:, 0] = kept[..., :-1, -1]
    assert "at query i + 1, key j - 63 as well" in says(kept)
    kept = one.kept.copy()
    kept.reshape(4, 64, 64)[1:, 0] = kept.reshape(4, 64, 64)[:-1, -1]
    assert "at query i - 63, key j of the head 1 further on as well" in says(kept)
    rows, keys = rng.random((2, 2, 64, 1)), rng.random((2, 2, 1, 64))
    found = dropped._sums_finding(replace(one, kept=(rows + keys) % 1 >= 0.25))
    assert "three corners of a rectangle" in found.says
    kept = one.kept.copy()
    kept[..., 5] = True
    found = dropped.line_finding(dropped.Mask(one.weights, kept, one.shown), 0.25)
    assert "0 of the 256 weights of key 5" in found.says


def test_an_output_with_v_an_identity_is_read_as_the_mask():
    case = find("9-star").cases(np.random.default_rng(5))[2]
    q, k, v, _, eyes = case.args
    call = dropout._Call.of(q, k, v, causal=False)
    kept = np.random.default_rng(6).random(call.p.shape) >= 0.25
    outputs = [call.p * kept / 0.75 @ as_float64(eye) for eye in eyes]
    seen = dropped.read(outputs, eyes, call.p, "float32")
    assert (seen.kept == kept).all()
    assert seen.shown.all()
    np.testing.assert_allclose(seen.weights, call.p * kept / 0.75)


def test_the_gradients_of_9_star_are_autograd_s_with_that_mask():
    case = find("9-star").cases(np.random.default_rng(5))[2]
    q, k, v, do, _ = (torch.from_numpy(as_float64(x)) for x in case.args)
    call = dropout._Call.of(q, k, v, causal=False)
    factor = (np.random.default_rng(6).random(call.p.shape) >= 0.25) / 0.75
    leaves = [x.requires_grad_() for x in (q, k, v)]
    p = torch.softmax(leaves[0] @ leaves[1].mT * q.shape[-1] ** -0.5, -1)
    wanted = torch.autograd.grad((p * torch.from_numpy(factor)) @ leaves[2], leaves, do)
    found = replace(call, qkv=case.args[:3], kept=factor).gradients(
        case.args[3], *dropout._derived(factor)
    )
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-9)


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.usefixtures("unnamed")
def test_a_null_backward_of_9_star_fails(null):
    class DroppedAttention(solutions(9).DroppedAttention):
        @staticmethod
        def backward(ctx, do, of_lse):
            return (*map(NULLS[null], ctx.saved_tensors[:3]), *[None] * 5)

    report = report_for(DroppedAttention, seed=1)
    assert report.verdict is Verdict.INCORRECT
    assert "the gradient of" in report.text()


# 9.2 --------------------------------------------------------------------------------------------


def test_the_truth_of_9_2_is_what_autograd_says():
    """dV and delta of float64 autograd, where every row has a key."""
    q, k, v = (torch.randn(1, 2, n, 16, dtype=torch.float64) for n in (40, 56, 56))
    v.requires_grad_()
    hidden = torch.ones(40, 56, dtype=torch.bool).triu(17)
    s = (q @ k.mT / 4).masked_fill(hidden, -torch.inf)
    o, do = torch.softmax(s, -1) @ v, torch.randn(1, 2, 40, 16, dtype=torch.float64)
    o.backward(do)
    lse = torch.logsumexp(s, -1)
    delta, dv = delta_and_dv._backward_truth(q, k, o.detach(), lse, do, causal=True)
    assert np.allclose(dv, v.grad, atol=1e-12)
    assert np.allclose(delta, (o.detach() * do).sum(-1), atol=1e-12)


def test_what_is_wrong_in_dv_is_said_of_keys_and_their_tiles():
    """68 keys in tiles of 32, and 16 queries a tile: dv is cut by 32, delta by 16."""
    report = report_on("9.2/wrong/begins_too_late")
    assert report.picture.tile[0] == 32
    assert [band.label for band in report.picture.bands] == ["tile 0", "tile 1", "tile 2"]
    text = words_of(report)
    assert "1 of 3 key tiles is wrong (tile 2, keys 64 to 67)" in text
    assert "follow key tile 2 (keys 64 to 67)" in text
    assert "query tile" not in text.partition("known mistake")[0]
    delta = words_of(report_on("9.2/wrong/delta_mean"))
    assert "both query tiles are wrong (all 64 rows)" in delta


def test_a_buffer_for_the_weights_is_found():
    source = code(9).replace(
        "    dv_kernel[(triton.cdiv(n_k, block_k), b * h)](",
        "    weights = torch.empty(b * h, n_q, n_k)\n"
        "    dv_kernel[(triton.cdiv(n_k, block_k), b * h)](",
    )
    report = report_for(module_from(source).delta_and_dv, seed=1)
    assert report.failed_property == "needs memory linear in N", report.text()


def test_p_left_in_float32_does_not_compile():
    source = code(9).replace("p.to(do_tile.dtype), do_tile", "p, do_tile")
    report = report_for(module_from(source).delta_and_dv, seed=1)
    assert not report.passed
