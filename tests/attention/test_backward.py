"""The backward in NumPy: the lesson's 2 x 2 by hand, finite differences, float64 autograd."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from attention.inputs import normal
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention import masks, tiled
from course_lib.attention.backward import backward

MASKS = {
    "none": None,
    "causal": masks.causal(),
    "window": masks.sliding_window(5),
    "prefix": masks.prefix(3),
}


def autograd(q, k, v, do, dlse=None, *, mask=None, scale=None):
    """Return (dq, dk, dv) of float64 autograd through the whole score matrix."""
    leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (q, k, v)]
    tq, tk, tv = leaves
    if q.ndim > 2 and (group := q.shape[-3] // k.shape[-3]) > 1:
        tk, tv = (x.repeat_interleave(group, -3) for x in (tk, tv))
    s = tq @ tk.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        seen = torch.from_numpy(mask.dense(q.shape[-2], k.shape[-2]))
        empty = ~seen.any(-1, keepdim=True)
        s = s.masked_fill(~seen & ~empty, -torch.inf)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - lse[..., None])
    if mask is not None:
        p, lse = p.masked_fill(empty, 0), lse.masked_fill(empty[..., 0], 0)
    loss = (p @ tv * torch.from_numpy(do)).sum()
    if dlse is not None:
        loss = loss + (lse * torch.from_numpy(dlse)).sum()
    return [g.numpy() for g in torch.autograd.grad(loss, leaves)]


def of_forward(q, k, v, do, dlse=None, **options):
    """Return what `backward` makes of what `tiled` returned."""
    o, lse = tiled(q, k, v, **options)
    return backward(q, k, v, o, lse, do, dlse, **options)


def test_two_by_two_by_hand():
    """Scale 1/2; P = [1/4 3/4; .9 .1]. One key a tile: whoever takes a softmax of it gets P = 1."""
    q, k, v, do = (
        np.array(x, dtype=float)[:, None] for x in ((2, -4), (0, math.log(3)), (4, 8), (1, 2))
    )
    o, lse = tiled(q, k, v, scale=0.5)
    np.testing.assert_allclose(o[:, 0], (7, 4.4), atol=1e-12)
    for block_q, block_k in ((1, 1), (2, 1), (1, 2), (2, 2)):
        dq, dk, dv = backward(q, k, v, o, lse, do, scale=0.5, block_q=block_q, block_k=block_k)
        np.testing.assert_allclose(dv[:, 0], (2.05, 0.95), atol=1e-12)
        np.testing.assert_allclose(dk[:, 0], (0.69, -0.69), atol=1e-12)
        np.testing.assert_allclose(dq[:, 0], (0.41198, 0.39550), atol=5e-6)


@pytest.mark.parametrize("name", MASKS)
def test_finite_differences(name):
    """Move one number at a time by 1e-5, to both sides, and look at the loss."""
    case = normal(5, 7, 3, lead=(2,), dtype=np.float64)
    rng = np.random.default_rng(1)
    do, dlse = rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 5))
    options = {"mask": MASKS[name], "scale": 0.7, "block_q": 2, "block_k": 3}

    def loss(*qkv):
        o, lse = tiled(*qkv, **options)
        return (o * do).sum() + (lse * dlse).sum()

    inputs = [case.q, case.k, case.v]
    found = of_forward(*inputs, do, dlse, **options)
    for which, (x, gradient) in enumerate(zip(inputs, found, strict=True)):
        for at in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[at] = 1e-5
            up, down = (
                loss(*[y + sign * step if i == which else y for i, y in enumerate(inputs)])
                for sign in (1, -1)
            )
            assert gradient[at] == pytest.approx((up - down) / 2e-5, abs=1e-8)


@settings(max_examples=60, deadline=None)
@given(
    n_q=st.integers(1, 20), n_k=st.integers(1, 20), d=st.integers(1, 6), d_v=st.integers(1, 6),
    block_q=st.integers(1, 24), block_k=st.integers(1, 24), group=st.integers(1, 3),
    scale=st.none() | st.floats(-1, 1), mask=st.sampled_from(sorted(MASKS)), data=st.data(),
)  # fmt: skip
def test_any_shape_mask_scale_and_tile_is_what_autograd_says(
    n_q, n_k, d, d_v, block_q, block_k, group, scale, mask, data
):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    q, do = (rng.standard_normal((2, 2 * group, n_q, x)) for x in (d, d_v))
    k, v = (rng.standard_normal((2, 2, n_k, x)) for x in (d, d_v))
    dlse = rng.standard_normal((2, 2 * group, n_q))
    options = {"mask": MASKS[mask], "scale": scale}
    wanted = autograd(q, k, v, do, dlse, **options)
    if MASKS[mask] is not None:  # nothing depends on the lse of a row without keys
        dlse = np.where(MASKS[mask].dense(n_q, n_k).any(-1), dlse, 0)
    got = of_forward(q, k, v, do, dlse, **options, block_q=block_q, block_k=block_k)
    for ours, theirs, like in zip(got, wanted, (q, k, v), strict=True):
        assert ours.shape == like.shape
        np.testing.assert_allclose(ours, theirs, atol=1e-11)


def test_rows_without_a_key_move_nothing_and_warn_of_nothing():
    case = normal(9, 4, 5, dtype=np.float64)
    do = np.ones((9, 5))
    with np.errstate(all="raise"):
        dq, dk, dv = of_forward(case.q, case.k, case.v, do, mask=masks.causal(), block_q=2)
    assert (dq[:5] == 0).all()
    alone = of_forward(case.q[5:], case.k, case.v, do[5:], mask=masks.causal())
    for ours, theirs in zip((dq[5:], dk, dv), alone, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-13)


@pytest.mark.parametrize("factor", [1, 12])
def test_float32_is_as_exact_as_autograd_in_float32(factor):
    case = normal(40, 56, 16, lead=(2,), factor=factor)
    do = np.random.default_rng(2).standard_normal((2, 40, 16)).astype(np.float32)
    wanted = autograd(case.q, case.k, case.v, do.astype(float))
    got = of_forward(case.q, case.k, case.v, do, block_q=16, block_k=32)
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.dtype == np.float32
        largest = np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, atol=2e-5 * largest * factor)


def test_gradients_have_the_inputs_dtypes():
    case = normal(6, 6, 4)
    q, k, v = (
        x.astype(t) for x, t in zip((case.q, case.k, case.v), ("f2", "f4", "f4"), strict=True)
    )
    dtypes = [x.dtype for x in of_forward(q, k, v, np.ones((6, 4)))]
    assert dtypes == [np.float16, np.float32, np.float32]


@pytest.mark.parametrize("name", ["o", "do", "lse"])
def test_what_does_not_fit_is_named(name):
    case = normal(6, 5, 4)
    given = dict(zip(("o", "lse"), tiled(case.q, case.k, case.v), strict=True))
    given["do"] = given["o"]
    given[name] = given[name][:-1]
    with pytest.raises(ValueError, match=rf"^{name} must have shape"):
        backward(case.q, case.k, case.v, **given)
