"""Decoding over pages, against float64 and, byte for byte, against a cache in one piece."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from kernels.decode_cases import CASES, DEVICE, HERE, assert_right, in_pages, make

from course_lib.accounting.kernel_ledger import KernelLedger
from course_lib.attention import paged
from course_lib.kernels.decode import flash_decode, splits_for
from course_lib.kernels.paged import paged_decode

INTERPRETED = not torch.cuda.is_available()


def cut(k, v, page, lengths, dtype=torch.int32):
    (k_pages, table), (v_pages, _) = (in_pages(x, page, lengths, dtype) for x in (k, v))
    return k_pages, v_pages, table


@pytest.mark.parametrize("splits", [None, 1, 3, 128])
@pytest.mark.parametrize("dtype", HERE, ids=str)
@pytest.mark.parametrize(("heads", "kv_heads", "n_q", "n_max", "d", "lengths"), CASES)
@pytest.mark.few(8)
def test_a_ragged_batch(heads, kv_heads, n_q, n_max, d, lengths, dtype, splits):
    q, k, v = make(len(lengths), heads, kv_heads, n_q, n_max, d, dtype)
    lengths = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)
    found = paged_decode(q, *cut(k, v, 16, lengths), lengths, splits=splits)
    assert_right(*found, q, k, v, lengths)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("page", [1, 3, 16, 64, 256])
def test_a_page_may_have_any_size(page, dtype):
    q, k, v = make(3, 4, 2, 1, 130, 32, torch.float32)
    lengths = torch.tensor([130, 0, 65], dtype=torch.int32, device=DEVICE)
    assert_right(*paged_decode(q, *cut(k, v, page, lengths, dtype), lengths), q, k, v, lengths)


def test_strides_are_free_but_that_of_a_row():
    """Heads behind slots, K and V in one pool, a table that is part of a wider one."""
    q, k, v = make(3, 4, 2, 1, 70, 32, torch.float32)
    lengths = torch.tensor([70, 1, 33], dtype=torch.int32, device=DEVICE)
    k_pages, v_pages, table = cut(k, v, 16, lengths)
    k_pages, v_pages = torch.stack([k_pages, v_pages], 1).transpose(2, 3).contiguous().unbind(1)
    wide = torch.full((3, 2 * table.shape[1]), 1 << 30, dtype=table.dtype, device=DEVICE)
    for one in (wide[:, : table.shape[1]], wide[:, ::2]):
        one.copy_(table)
        pages = (x.transpose(1, 2) for x in (k_pages, v_pages))
        assert_right(*paged_decode(q, *pages, one, lengths), q, k, v, lengths)


def test_sequences_may_share_pages():
    q, k, v = make(2, 4, 2, 1, 48, 16, torch.float32)
    k, v = (x[:1].expand_as(x) for x in (k, v))
    k_pages, v_pages, table = cut(k[:1], v[:1], 16, torch.tensor([48]))
    lengths = torch.tensor([48, 20], dtype=torch.int32, device=DEVICE)
    found = paged_decode(q, k_pages, v_pages, table.expand(2, -1), lengths)
    assert_right(*found, q, k, v, lengths)


def test_it_is_the_decode_over_pages_of_lesson_11_in_numpy():
    q, k, v = make(3, 4, 2, 2, 70, 32, torch.float32)
    lengths = torch.tensor([70, 2, 33], dtype=torch.int32, device=DEVICE)
    args = (q, *cut(k, v, 10, lengths), lengths)
    expected = paged.paged_decode(*(x.cpu().numpy() for x in args))
    for one, other in zip(paged_decode(*args), expected, strict=True):
        np.testing.assert_allclose(one.cpu(), other, atol=1e-5)


@pytest.mark.skipif(not INTERPRETED, reason="counts in Triton's interpreter")
@pytest.mark.parametrize("page", [1, 3, 16, 256])
def test_pages_do_not_cut_traffic(page):
    """What is counted: the same bytes of K and V as from one piece, and a number a key on top."""
    q, k, v = make(3, 4, 2, 1, 150, 32, torch.float16)
    lengths = torch.tensor([150, 0, 65], dtype=torch.int32)
    with KernelLedger() as whole:
        flash_decode(q, k, v, lengths, splits=2)
    with KernelLedger() as in_parts:
        paged_decode(q, *cut(k, v, page, lengths), lengths, splits=2)
    keys, kv_heads, d = int(lengths.sum()), 2, 32
    assert in_parts.read["k"] == in_parts.read["v"] == kv_heads * keys * d * 2
    extra = {x: n - whole.read.get(x, 0) for x, n in in_parts.read.items()}
    assert extra == dict.fromkeys(extra, 0) | {"table": kv_heads * keys * 4}
    assert in_parts.written == whole.written


@pytest.mark.parametrize(("pairs", "splits"), [(8, 49), (32, 12), (128, 3), (512, 2)])
def test_three_programs_share_an_sm_where_the_cache_is_in_pages(pairs, splits):
    assert splits_for(132, pairs, 1024, paged=True) == splits


X = torch.zeros(2, 2, 1, 16)
POOL, TABLE = torch.zeros(3, 1, 4, 16), torch.zeros(2, 2, dtype=torch.int32)
LENGTHS = torch.tensor([1, 1], dtype=torch.int32)


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((X, POOL[0], POOL[0], TABLE, LENGTHS), ValueError, "k_pages must have shape"),
        ((X, POOL, POOL, TABLE[0], LENGTHS), ValueError, "table must have shape"),
        ((X, POOL, POOL, TABLE[:1], LENGTHS), ValueError, "table must have shape"),
        ((X, POOL, POOL, TABLE.float(), LENGTHS), TypeError, "table must be int32 or int64"),
        ((X, POOL, POOL, TABLE, LENGTHS.long()), TypeError, "lengths must be int32"),
    ],
)
def test_bad_input_gets_a_sentence(args, error, words):
    with pytest.raises(error, match=words):
        paged_decode(*args)


@pytest.mark.gpu
@pytest.mark.parametrize("page", [1, 48, 64])
@pytest.mark.parametrize("kv_heads", [8, 32])
@pytest.mark.parametrize("d", [64, 128])
def test_compiled_for_this_gpu(d, kv_heads, page):
    q, k, v = make(3, 32, kv_heads, 1, 5000, d, torch.bfloat16)
    lengths = torch.tensor([5000, 17, 3333], dtype=torch.int32, device=DEVICE)
    assert_right(*paged_decode(q, *cut(k, v, page, lengths), lengths), q, k, v, lengths)


@pytest.mark.gpu
def test_addresses_beyond_32_bits():
    """A pool of 5 GB: the page times its stride is no int32."""
    pool = torch.zeros(20_000, 8, 128, 128, dtype=torch.float16, device=DEVICE)
    q, k, _ = make(1, 8, 8, 1, 256, 128, torch.float16)
    table = torch.tensor([[19_999, 17_000]], dtype=torch.int32, device=DEVICE)
    lengths = torch.tensor([256], dtype=torch.int32, device=DEVICE)
    for i, page in enumerate(table[0].tolist()):
        pool[page] = k[0, :, 128 * i : 128 * (i + 1)]
    assert_right(*paged_decode(q, pool, pool, table, lengths), q, k, k, lengths)
