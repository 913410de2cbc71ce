"""Every rung of the ladder computes the same attention: float64 is the judge."""

from __future__ import annotations

import pytest
import torch

from course_lib.attention.truth import attention_float64
from course_lib.kernels import ladder
from course_lib.kernels.attention_forward import gluon_works
from course_lib.kernels.tiles import BY_HAND, CAUSAL_LISTS, LISTS, Tiles

SIZES = ((256, 256), (1024, 1024), (300, 700), (700, 300), (1, 129), (129, 1), (320, 900))


def assert_right(o, lse, q, k, v, causal, scale=None):
    truth, lse_truth = (
        torch.from_numpy(x) for x in attention_float64(q, k, v, causal=causal, scale=scale)
    )
    seen = lse_truth.isfinite()
    exact = q.dtype == torch.float32
    limit = 1e-5 if exact else 4 * (truth.to(q.dtype) - truth).abs().max()
    error = (o.cpu() - truth).abs()
    assert (error <= limit).all(), f"o is off by {error.max():.2e}, allowed {limit:.2e}"
    assert (lse.cpu() - lse_truth)[seen].abs().max() <= (1e-5 if exact else 1e-3)
    assert (lse.cpu()[~seen] == float("-inf")).all()
    assert (o.cpu()[~seen] == 0).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rung", ladder.RUNGS)
@pytest.mark.parametrize(("n_q", "n_k"), [(70, 52), (33, 90), (40, 64)])
@pytest.mark.few(14)
def test_every_rung_is_right_for_any_length_and_for_rows_without_a_key(rung, causal, n_q, n_k):
    torch.manual_seed(n_q)
    q, k, v = torch.randn(2, 2, n_q, 16), torch.randn(2, 2, n_k, 16), torch.randn(2, 2, n_k, 16)
    if torch.cuda.is_available():
        q, k, v = q.cuda(), k.cuda(), v.cuda()
    o, lse = ladder.RUNGS[rung](q, k, v, causal=causal, tiles=Tiles(32, 16, num_stages=1))
    assert_right(o, lse, q, k, v, causal)


@pytest.mark.parametrize("scale", [0.0, -0.125, float("nan")])
def test_a_rung_that_scales_the_maximum_refuses_a_scale_that_turns_it_round(scale):
    x = torch.ones(1, 1, 16, 16)
    with pytest.raises(ValueError, match="scale must be above 0"):
        ladder.descriptors(x, x, x, scale=scale)


def test_rung_3_loads_about_half_of_the_key_tiles_and_rung_2_loads_all():
    """The point of rung 3, counted: at 4 x 4 tiles 10 of 16 are left."""
    if torch.cuda.is_available():
        pytest.skip("tiles are counted in the interpreter")
    from course_lib.accounting.kernel_ledger import KernelLedger

    q, k, v = (torch.randn(1, 1, 64, 16) for _ in range(3))
    read = {}
    for rung in (2, 3, 4):
        with KernelLedger() as ledger:
            ladder.RUNGS[rung](q, k, v, causal=True, tiles=Tiles(16, 16))
        read[rung] = ledger.read["k"] / (16 * 16 * 4)
    assert read == {2: 16, 3: 10, 4: 10}


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_compiled_rungs_with_this_gpus_tiles(dtype, d, causal):
    for n_q, n_k in ((1024, 1024), (300, 700), (700, 300)):
        q = torch.randn(1, 2, n_q, d, device="cuda").to(dtype)
        k, v = (torch.randn(1, 2, n_k, d, device="cuda").to(dtype) for _ in range(2))
        for rung in ladder.RUNGS.values():
            assert_right(*rung(q, k, v, causal=causal), q, k, v, causal)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "table", [BY_HAND, LISTS, CAUSAL_LISTS], ids=["come and go", "lists", "causal lists"]
)
@pytest.mark.parametrize("d", BY_HAND)
def test_rung_8_as_it_is_tuned(d, table, causal):
    if torch.cuda.get_device_capability() != (9, 0) or not gluon_works():
        pytest.skip("rung 8 is for sm_90 and for a Triton with its Gluon")
    if d not in table:
        pytest.skip("no room for a second tile of Q")
    from course_lib.kernels.gluon_forward import specialised

    for dtype in (torch.float16, torch.bfloat16):
        for n_q, n_k in SIZES:
            q = torch.randn(2, 4, n_q, d, device="cuda").to(dtype)
            k, v = (torch.randn(2, 2, n_k, d, device="cuda").to(dtype) for _ in range(2))
            o, lse = specialised(q, k, v, causal=causal, **table[d])
            assert_right(o, lse, q, k, v, causal)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"stages": 3},
        {"stays": True},
        {"stays": True, "groups": 3, "overlap": False},
        {"overlap": False},
        {"groups": 3, "overlap": False},
        {"groups": 3, "block_k": 64, "stages": 3},
    ],
    ids=str,
)
def test_rung_8_written_by_hand(choice, causal):
    if torch.cuda.get_device_capability() != (9, 0) or not gluon_works():
        pytest.skip("rung 8 is for sm_90 and for a Triton with its Gluon")
    from course_lib.kernels.gluon_forward import specialised

    for d in (64, 128):
        if d == 128 and choice.get("groups") == 3 and "block_k" not in choice:
            continue  # no room in registers for 128 keys
        for n_q, n_k in SIZES:
            q = torch.randn(2, 4, n_q, d, device="cuda").bfloat16()
            k, v = (torch.randn(2, 2, n_k, d, device="cuda").bfloat16() for _ in range(2))
            o, lse = specialised(q, k, v, causal=causal, **choice)
            assert_right(o, lse, q, k, v, causal)


@pytest.mark.gpu
@pytest.mark.parametrize("step", [3.0, 7.9, 8.1, 30.0])  # powers of two: rung 8's slack is 8
@pytest.mark.parametrize("d", BY_HAND)
def test_rung_8_where_maxima_rise_from_tile_to_tile_in_some_rows(d, step):
    if torch.cuda.get_device_capability() != (9, 0) or not gluon_works():
        pytest.skip("rung 8 is for sm_90 and for a Triton with its Gluon")
    from course_lib.kernels.gluon_forward import LOG2_E, specialised

    n, tile = 1024, BY_HAND[d]["block_k"]
    q, k, v = (torch.randn(1, 2, n, d, device="cuda").half() for _ in range(3))
    rises = torch.rand(n, device="cuda") < 0.03  # keys are walked from the last to the first
    q[..., 0] = torch.where(rises, step / LOG2_E, 0.01)
    k[..., 0] = (n - 1 - torch.arange(n, device="cuda")) // tile
    for causal in (False, True):
        o, lse = specialised(q, k, v, causal=causal, scale=1.0, **BY_HAND[d])
        assert_right(o, lse, q, k, v, causal, scale=1.0)
