"""What the backward moves and computes, against counts by hand; the ledger's are in lesson 09."""

from __future__ import annotations

import pytest

from course_lib.accounting import backward_traffic as backward
from course_lib.accounting.traffic import attention_flops, flash_compulsory, visited_flops

SHAPE = {"n": 1024, "d": 64, "heads": 8, "b": 2}


def test_compulsory_is_the_forward_twice_and_the_receipt_read():
    """Q, K, V, O and dO in, three gradients out: 8 tensors for the forward's 4."""
    rows = SHAPE["heads"] * SHAPE["n"]
    forward = flash_compulsory.bytes(**SHAPE)
    assert backward.backward_compulsory.bytes(**SHAPE) == 2 * forward + 4 * rows


def test_the_three_kernels_together_are_the_whole():
    tiles = {"block_q": 64, "block_k": 128, "causal": True}
    parts = (backward.delta_loads, backward.dk_dv_loads, backward.dq_loads)
    whole = backward.backward_tile_loads.bytes(**SHAPE, **tiles)
    assert whole == sum(part.bytes(**SHAPE, **tiles) for part in parts)


def test_tiles_of_64_reload_q_and_do_sixteen_times_and_k_and_v_sixteen_times():
    one = SHAPE["heads"] * SHAPE["n"] * SHAPE["d"] * SHAPE["b"]
    row = 4 * SHAPE["heads"] * SHAPE["n"]
    moved = backward.backward_tile_loads.terms(**SHAPE, block_q=64, block_k=64)
    assert moved["read"] == {
        "o": one,
        "do": (1 + 16 + 1) * one,
        "q": (16 + 1) * one,
        "k": (1 + 16) * one,
        "v": (1 + 16) * one,
        "lse": (16 + 1) * row,
        "delta": (16 + 1) * row,
    }
    assert moved["written"] == {"delta": row, "dq": one, "dk": one, "dv": one}


def test_without_the_tiles_nothing_can_be_said():
    with pytest.raises(ValueError, match="give block_q"):
        backward.dk_dv_loads.bytes(**SHAPE)


@pytest.mark.parametrize("causal", [False, True])
def test_the_backward_is_two_and_a_half_forwards_and_three_and_a_half_without_atomics(causal):
    assert backward.backward_flops(512, 512, 64, 4, causal) == 2.5 * attention_flops(
        512, 512, 64, 4, causal
    )
    tiles = {"block_q": 64, "block_k": 32, "causal": causal}
    split = backward.visited_backward_flops(500, 600, 64, **tiles)
    assert split == 3.5 * visited_flops(500, 600, 64, **tiles)
    fused = backward.visited_backward_flops(500, 600, 64, products=5, **tiles)
    assert 5 * split == 7 * fused


def test_the_receipt_is_half_a_thousandth_of_the_goods():
    """12 layers of 12 heads, batch 8, N = 1024, bf16."""
    kept = backward.kept_for_backward(1024, heads=12, layers=12, batch=8)
    assert kept["p"] == 2.25 * 2**30
    assert kept["lse"] == 4.5 * 2**20
