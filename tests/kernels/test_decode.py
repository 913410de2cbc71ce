"""Decoding over a cache in one piece, against float64; over pages: `test_paged`."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.decode_cases import CASES, DEVICE, HERE, assert_right, make

from course_lib.kernels.decode import flash_decode, longest, splits_for, to_sort


@pytest.mark.parametrize("splits", [None, 1, 3, 128])
@pytest.mark.parametrize("dtype", HERE, ids=str)
@pytest.mark.parametrize(("heads", "kv_heads", "n_q", "n_max", "d", "lengths"), CASES)
@pytest.mark.few(8)
def test_a_ragged_batch(heads, kv_heads, n_q, n_max, d, lengths, dtype, splits):
    q, k, v = make(len(lengths), heads, kv_heads, n_q, n_max, d, dtype)
    lengths = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)
    o, lse = flash_decode(q, k, v, lengths, splits=splits)
    assert_right(o, lse, q, k, v, lengths)


@pytest.mark.parametrize(
    ("pairs", "tiles", "splits"),
    [
        (8, 1024, 16),  # one program on nearly every SM
        (128, 256, 1),
        (24, 469, 5),
        (100, 469, 2),  # one each would leave 32 SMs idle
        (512, 64, 2),  # more than run at once: several short waves
        (2048, 64, 1),
        (1, 4096, 128),  # the most
        (1, 12, 3),  # four tiles each at least
        (1, 1, 1),
    ],
)
def test_how_many_programs_share_the_keys_on_an_h100(pairs, tiles, splits):
    assert splits_for(132, pairs, tiles) == splits


@pytest.mark.parametrize(
    ("pairs", "tiles", "splits"),
    [(64, 1024, 16), (256, 256, 8), (1024, 64, 2), (8, 1024, 16), (512, 16, 2)],
)
def test_in_a_ragged_batch_no_program_has_many_tiles(pairs, tiles, splits):
    """With a program for each pair everybody waits for the longest sequence."""
    assert splits_for(132, pairs, tiles, ragged=True) == splits
    assert splits_for(132, pairs, tiles, paged=True, ragged=True) >= splits


@triton.jit
def order_kernel(lengths, order, BATCH: tl.constexpr):
    tl.store(order + tl.program_id(2), longest(tl.program_id(2), lengths, BATCH))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=16))
def test_the_longest_sequences_come_first_and_of_equals_the_first(lengths):
    given_, order = (
        torch.tensor(x, dtype=torch.int32, device=DEVICE) for x in (lengths, [-1] * len(lengths))
    )
    order_kernel[1, 1, len(lengths)](given_, order, BATCH=16)
    assert order.tolist() == sorted(range(len(lengths)), key=lambda i: -lengths[i])


@pytest.mark.parametrize(
    ("batch", "programs", "sorted_"),
    [
        (64, 1024, 64),
        (100, 1024, 128),
        (4, 512, 0),  # nearly all run at once
        (256, 4096, 0),  # to find its sequence would take a program too long
    ],
)
def test_when_a_ragged_batch_is_sorted_on_an_h100(batch, programs, sorted_):
    assert to_sort(132, batch, programs) == sorted_


@pytest.mark.gpu
def test_a_batch_of_many_lengths_is_sorted_and_right():
    """800 programs are more than two waves on an H100; here a batch of three is sorted already."""
    q, k, v = make(100, 8, 8, 1, 40, 64, torch.float16)
    lengths = torch.arange(100, dtype=torch.int32, device=DEVICE) * 7 % 41
    assert_right(*flash_decode(q, k, v, lengths), q, k, v, lengths)


def test_a_sequence_without_keys_and_the_default_length():
    q, k, v = make(2, 2, 1, 1, 40, 16, torch.float32)
    everything = torch.tensor([40, 40], dtype=torch.int32, device=DEVICE)
    assert_right(*flash_decode(q, k, v), q, k, v, everything)
    some = torch.tensor([0, 40], dtype=torch.int32, device=DEVICE)
    o, lse = flash_decode(q, k, v, some)
    assert (o[0] == 0).all()
    assert (lse[0] == float("-inf")).all()


X = torch.zeros(2, 2, 1, 16)
LENGTHS = torch.tensor([1, 1], dtype=torch.int32)


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((X.double(), X, X), TypeError, "q must be float32"),
        ((X, X.half(), X), TypeError, "k must have q's dtype"),
        ((X, X, X[..., :8]), ValueError, "v must have q's head_dim"),
        ((X, X[:1], X[:1]), ValueError, "with q's batch 2"),
        ((X, X, X, LENGTHS.long()), TypeError, "lengths must be int32"),
        ((X, X, X, LENGTHS[:1]), ValueError, "lengths must have shape"),
        ((X.repeat(1, 40, 1, 1), X[:, :1], X[:, :1]), ValueError, "at most 64, got 80"),
    ],
)
def test_bad_input_gets_a_sentence(args, error, words):
    with pytest.raises(error, match=words):
        flash_decode(*args)


@pytest.mark.gpu
@pytest.mark.parametrize("kv_heads", [8, 32])
@pytest.mark.parametrize("d", [64, 128])
def test_compiled_for_this_gpu(d, kv_heads):
    q, k, v = make(3, 32, kv_heads, 1, 5000, d, torch.bfloat16)
    lengths = torch.tensor([5000, 17, 3333], dtype=torch.int32, device=DEVICE)
    assert_right(*flash_decode(q, k, v, lengths), q, k, v, lengths)
