"""What a decode step moves, against counts by hand; the kernels' ledgers are in lesson 10."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.accounting import decode_traffic as decode
from course_lib.accounting.traffic import flash_compulsory

LLAMA = {"n": 8192, "d": 128, "heads": 32, "kv_heads": 8}
SIZE = st.integers(1, 9)


@given(n=SIZE, d=SIZE, batch=SIZE, kv_heads=SIZE, group=SIZE, b=SIZE, lse=st.booleans())
def test_with_caches_of_their_own_it_is_the_forwards_least(n, d, batch, kv_heads, group, b, lse):
    """A sequence is a few heads more there."""
    heads = kv_heads * group
    shape = {"n": n + 3, "n_q": 3, "d": d, "b": b}
    forward = flash_compulsory.bytes(
        lse, n_q=3, n_k=n + 3, d=d, b=b, heads=batch * heads, kv_heads=batch * kv_heads
    )
    found = decode.decode_compulsory.bytes(
        lse, **shape, batch=batch, heads=heads, kv_heads=kv_heads
    )
    assert found == forward


def test_a_step_by_hand():
    """2 sequences of 5 rows, 2 of them shared; 4 heads on 2; d = 8, 2 bytes."""
    moved = decode.decode_compulsory.terms(True, n=5, shared=2, batch=2, heads=4, kv_heads=2, d=8)
    rows = 2 * (2 + 3 + 3) * 8 * 2  # heads * (shared, own, own) * d * b
    assert moved["read"] == {"q": 2 * 4 * 8 * 2, "k": rows, "v": rows}
    assert moved["written"] == {"o": 2 * 4 * 8 * 2, "lse": 2 * 4 * 4}


def test_one_query_a_group_of_four_has_four_flops_a_byte():
    assert decode.decode_intensity(**LLAMA) == pytest.approx(4, rel=1e-3)
    assert decode.long_cache_intensity(4) == 4


@pytest.mark.parametrize("batch", [1, 8, 256])
def test_a_batch_of_own_caches_changes_nothing(batch):
    assert decode.decode_intensity(**LLAMA, batch=batch) == decode.decode_intensity(**LLAMA)


def test_sharing_and_drafts_raise_it():
    alone = decode.decode_intensity(**LLAMA)
    drafts = decode.decode_intensity(**LLAMA, n_q=5)
    prefix = decode.decode_intensity(**LLAMA, batch=64, shared=8000)
    assert drafts == pytest.approx(5 * alone, rel=2e-3)
    assert 25 * alone < prefix < 64 * alone


def test_a_kernel_that_does_not_pack_loads_group_times():
    packed, unpacked = (
        model.terms(**LLAMA)["read"]["k"]
        for model in (decode.decode_packed_loads, decode.decode_unpacked_loads)
    )
    assert unpacked == 4 * packed
    loads = decode.decode_packed_loads.terms(**LLAMA, batch=3, shared=8000)["read"]["k"]
    assert loads == 3 * packed


def test_parts_cost_little_beside_a_long_cache():
    parts = decode.split_parts.terms(**LLAMA, splits=16)
    rows = 32 * 16 * 4
    assert parts["written"] == parts["read"] == {"o_parts": rows * 128, "lse_parts": rows}
    assert decode.split_parts.bytes(**LLAMA, splits=16) < 0.02 * decode.decode_compulsory.bytes(
        **LLAMA
    )


def test_appending_writes_one_row_a_head():
    assert decode.append.bytes(**LLAMA, batch=4) == 2 * 4 * 8 * 128 * 2


def test_128_heads_on_a_latent_row_do_242_flops_a_byte():
    assert decode.latent_intensity(128) == pytest.approx(242, abs=0.5)


def test_the_cache_of_llama_3_8b():
    """128 KiB a token; what is shared is kept once."""
    model = {"layers": 32, "kv_heads": 8, "d": 128}
    assert decode.cache_bytes(1, **model) == 128 * 2**10
    assert decode.cache_bytes(8192, **model) == 2**30
    assert decode.cache_bytes(10, **model, batch=4, shared=6) == 22 * 128 * 2**10


def test_int8_rows_bring_their_scales():
    """132 bytes where bfloat16 has 256: a little more than half."""
    assert decode.cache_bytes(3, d=128, kv_heads=8, b=1, scale_bytes=4) == 2 * 3 * 8 * 132


def test_a_token_of_deepseek_v2_is_1152_bytes_a_layer():
    assert decode.latent_cache_bytes(1) == 1152
    assert decode.latent_cache_bytes(100, layers=60, batch=3) == 100 * 60 * 3 * 1152
    of_all_heads = 128 * (192 + 128) * 2  # K of 192 numbers, V of 128
    assert of_all_heads / decode.latent_cache_bytes(1) == pytest.approx(71, abs=0.2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kv_heads": 5}, "heads must be a multiple"),
        ({"shared": 8192}, "shared must be from 0 to n - n_q = 8191"),
        ({"shared": -1}, "shared must be from 0"),
        ({"n_q": 0}, "n_q must be a positive integer"),
    ],
)
def test_what_does_not_fit_is_named(change, says):
    with pytest.raises(ValueError, match=says):
        decode.decode_compulsory.bytes(**{**LLAMA, **change})
    with pytest.raises(ValueError, match="shared must be from 0"):
        decode.cache_bytes(4, d=8, kv_heads=1, shared=5)
    with pytest.raises(ValueError, match="scale_bytes must be"):
        decode.cache_bytes(4, d=8, kv_heads=1, scale_bytes=-1)
