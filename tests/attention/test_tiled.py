"""Tiled attention, NumPy and eager PyTorch, against the float64 truth."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from attention.inputs import CASES, TILES, assert_as_good_as_eager, assert_lse, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.attention import attention_float64, masks, naive_masked, tiled
from course_lib.attention.masks import Tile
from course_lib.attention.tiled_eager import tiled_eager

fast = settings(max_examples=40, deadline=None)
MASKS = {
    "causal": masks.causal(),
    "window": masks.sliding_window(9),
    "prefix": masks.prefix(11),
    "documents": masks.document([5, 20, 12, 13]),
    "causal documents": masks.both(masks.document([5, 20, 12, 13]), masks.causal()),
}


@pytest.mark.parametrize("tiles", TILES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_tiled_against_truth(name, tiles):
    case = CASES[name]()
    truth, lse_truth = attention_float64(case.q, case.k, case.v, causal=case.causal)
    eager = naive_masked(case.q, *case.kv_repeated, case.allowed)
    mask = masks.causal() if case.causal else None
    with np.errstate(invalid="raise", divide="raise", over="raise"):
        o, lse = tiled(case.q, case.k, case.v, mask=mask, block_q=tiles[0], block_k=tiles[1])
    assert_as_good_as_eager(o, eager, truth)
    assert_lse(lse, lse_truth)
    assert lse.dtype == np.result_type(case.q, np.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [n for n in CASES if n not in ("float64", "grouped heads")])
def test_tiled_eager_against_truth(name, dtype):
    """On the CPU in three dtypes; the truth is that of the inputs as rounded."""
    case = CASES[name]()
    q, k, v = (torch.from_numpy(x).to(dtype) for x in (case.q, *case.kv_repeated))
    truth, lse_truth = attention_float64(q, k, v, causal=case.causal)
    s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~torch.from_numpy(case.allowed), -torch.inf)
    eager = torch.softmax(s, dim=-1).nan_to_num(0) @ v
    o, lse = tiled_eager(q, k, v, causal=case.causal, block_q=16, block_k=32)
    assert o.dtype == dtype
    assert lse.dtype == torch.float32
    assert o.isfinite().all()
    error = (o.double() - torch.from_numpy(truth)).abs()
    eager_error = (eager.double() - torch.from_numpy(truth)).abs().max() if error.numel() else 0
    rounded = torch.from_numpy(truth).to(dtype).double().numpy()
    atol = 1e-5 if dtype == torch.float32 else 2 * np.abs(rounded - truth).max(initial=0)
    assert (error <= 2 * eager_error + atol).all()
    assert_lse(lse.numpy(), lse_truth)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n_q", "n_k"), [(7, 7), (5, 9), (9, 5)])
def test_both_tiled_are_one_algorithm(causal, n_q, n_k):
    """Every pair of tile sizes up to 5: NumPy and PyTorch agree to rounding in float64."""
    case = normal(n_q, n_k, 6, lead=(2, 3), dtype=np.float64)
    tensors = [torch.from_numpy(x) for x in (case.q, case.k, case.v)]
    for block_q, block_k in product(range(1, 6), repeat=2):
        options = {"scale": 0.2, "block_q": block_q, "block_k": block_k}
        ours = tiled(case.q, case.k, case.v, mask=masks.causal() if causal else None, **options)
        theirs = tiled_eager(*tensors, causal=causal, **options)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-13, atol=1e-13)


@fast
@given(
    n_q=st.integers(1, 40), n_k=st.integers(0, 40), d=st.integers(1, 9), d_v=st.integers(1, 9),
    block_q=st.integers(1, 45), block_k=st.integers(1, 45), causal=st.booleans(), data=st.data(),
)  # fmt: skip
def test_tile_sizes_and_order_do_not_matter(n_q, n_k, d, d_v, block_q, block_k, causal, data):
    """Any tiles, any order of the K/V tiles, n_q and n_k either way round: one answer."""
    case = normal(n_q, n_k, d, factor=3, dtype=np.float64)
    v = np.random.default_rng(1).standard_normal((n_k, d_v))
    order = data.draw(st.permutations(range(-(-n_k // block_k))))
    with np.errstate(invalid="raise", divide="raise", over="raise"):
        o, lse = tiled(
            case.q,
            case.k,
            v,
            mask=masks.causal() if causal else None,
            block_q=block_q,
            block_k=block_k,
            k_order=order,
        )
    truth, lse_truth = attention_float64(case.q, case.k, v, causal=causal)
    np.testing.assert_allclose(o, truth, rtol=0, atol=1e-12)
    np.testing.assert_allclose(lse, lse_truth, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("n_q", [50, 23, 64])
def test_every_mask_against_truth(mask, n_q):
    case = normal(n_q, 50, 16, lead=(2,), dtype=np.float64)
    o, lse = tiled(case.q, case.k, case.v, mask=mask, block_q=8, block_k=12)
    truth = attention_float64(case.q, case.k, case.v, allowed=mask.dense(n_q, 50))
    np.testing.assert_allclose(o, truth[0], atol=1e-12)
    np.testing.assert_allclose(lse, truth[1], rtol=1e-12)


def test_grouped_heads_are_repeated_heads():
    """Query head h uses key/value head h // group: bit for bit what repeating them gives."""
    case = normal(33, 50, 16, lead=(2, 6), kv_heads=2)
    k, v = case.kv_repeated
    for a, b in zip(tiled(case.q, case.k, case.v), tiled(case.q, k, v), strict=True):
        assert np.array_equal(a, b)


def test_by_hand():
    """The lesson's numbers come out of the loop; a wrong rescale gives 52.22, 20.31 or 21.11."""
    q, k = np.ones((1, 1)), np.array([[1.0], [3.0], [2.0], [5.0]])
    v = np.array([[10.0], [20.0], [30.0], [40.0]])
    for order in ([0, 1], [1, 0]):
        o, lse = tiled(q, k, v, block_k=2, k_order=order)
        assert o.item() == pytest.approx(36.88, abs=5e-3)
        assert np.exp(lse.item() - 5) == pytest.approx(1.20344, abs=5e-6)
    o, lse = tiled_eager(*map(torch.from_numpy, (q, k, v)), block_k=2)
    assert o.item() == pytest.approx(36.88, abs=5e-3)
    assert np.exp(lse.item() - 5) == pytest.approx(1.20344, abs=5e-6)


def test_skipped_tiles_are_not_touched_and_full_ones_not_masked():
    """NaN in the K/V rows that nobody may see stays there; only partial tiles ask for pairs."""
    case = normal(32, 64, 16)
    window = masks.sliding_window(8)  # queries stand at 32 .. 63, so keys 0 .. 24 are unseen
    k, v = case.k.copy(), case.v.copy()
    k[:16], v[:16] = np.nan, np.nan
    o, _ = tiled(case.q, k, v, mask=window, block_q=16, block_k=16)
    truth, _ = attention_float64(case.q, case.k, case.v, allowed=window.dense(32, 64))
    np.testing.assert_allclose(o, truth, atol=1e-5)

    asked = []

    class Watched(masks.Causal):
        def allowed(self, rows, cols, n_q, n_k):
            asked.append((int(rows[0]), int(cols[0])))
            return super().allowed(rows, cols, n_q, n_k)

    tiled(case.q, case.k[:32], case.v[:32], mask=Watched(), block_q=8, block_k=8)
    assert asked == [(i, i) for i in (0, 8, 16, 24)]


def test_inputs_are_not_changed():
    case = normal(20, 30, 8, dtype=np.float64)
    before = [x.copy() for x in (case.q, case.k, case.v)]
    tiled(case.q, case.k, case.v, mask=masks.causal(), block_q=8, block_k=8)
    tiled_eager(*map(torch.from_numpy, (case.q, case.k, case.v)), causal=True, block_q=8)
    assert all(np.array_equal(a, b) for a, b in zip((case.q, case.k, case.v), before))


def test_tiled_eager_loads_q_for_every_k_tile():
    """Q's storage is an operand of T_q * T_k operators, and so are K's and V's."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    q, k, v = (torch.randn(n, 16) for n in (40, 70, 70))
    rows = dict.fromkeys(("q", "k", "v"), 0)
    names = {x.untyped_storage().data_ptr(): name for x, name in zip((q, k, v), "qkv")}

    class Reads(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.bmm):
                for x in tree_leaves(args):
                    name = names.get(x.untyped_storage().data_ptr())
                    if name:
                        rows[name] += x.numel() // 16
            return result

    with Reads():
        tiled_eager(q, k, v, block_q=16, block_k=32)
    assert rows == {"q": 40 * 3, "k": 70 * 3, "v": 70 * 3}  # T_q = 3, T_k = 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"block_q": 0}, "block_q must be"),
        ({"block_k": 2.0}, "block_k must be"),
        ({"block_k": 4, "k_order": [0, 0]}, "k_order must hold"),
        ({"block_k": 4, "k_order": [0]}, "k_order must hold"),
    ],
)
def test_bad_tiles_get_a_sentence(options, words):
    case = normal(8, 8, 4)
    with pytest.raises(ValueError, match=words):
        tiled(case.q, case.k, case.v, **options)


def test_tiled_eager_refuses_grouped_heads():
    q, k = torch.zeros(4, 8, 4), torch.zeros(2, 8, 4)
    with pytest.raises(ValueError, match="as many heads as q, 4, got 2"):
        tiled_eager(q, k, k)


def test_causal_visits_ten_of_sixteen_tiles():
    """N = 16 in tiles of 4: six skipped, six full, four on the diagonal to be masked."""
    kinds = [
        masks.causal().classify(i, i + 4, j, j + 4, 16, 16)
        for i in range(0, 16, 4)
        for j in range(0, 16, 4)
    ]
    assert [kinds.count(t) for t in (Tile.SKIP, Tile.FULL, Tile.PARTIAL)] == [6, 6, 4]
