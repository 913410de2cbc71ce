"""Decoding over a cache in one piece and in pages, against float64."""

from __future__ import annotations

import pytest
import torch

from course_lib.attention.truth import attention_float64
from course_lib.kernels.decode import flash_decode, paged_decode, splits_for
from course_lib.kernels.flash_forward import DTYPES

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HERE = DTYPES if torch.cuda.is_available() else DTYPES[:2]


def make(batch, heads, kv_heads, n_q, n_max, d, dtype):
    torch.manual_seed(n_max + d)
    shapes = ((heads, n_q), (kv_heads, n_max), (kv_heads, n_max))
    return [torch.randn(batch, *shape, d).to(DEVICE, dtype) for shape in shapes]


def paged(x, page, lengths):
    """Cut (B, H_kv, n_max, d) into pages in a shuffled pool, with a spare page of NaN."""
    batch, kv_heads, n_max, d = x.shape
    per_sequence = -(-n_max // page)
    room = torch.zeros(batch, kv_heads, per_sequence * page, d, dtype=x.dtype, device=x.device)
    room[:, :, :n_max] = x
    pages = room.view(batch, kv_heads, per_sequence, page, d).permute(0, 2, 3, 1, 4).flatten(0, 1)
    order = torch.randperm(len(pages), generator=torch.Generator().manual_seed(3)).to(x.device)
    pool = torch.full_like(pages[:1].expand(len(pages) + 1, -1, -1, -1), float("nan"))
    pool[order] = pages
    table = order.view(batch, per_sequence).int().clone()
    for b, length in enumerate(lengths.tolist()):  # what lies beyond a sequence must not be read
        table[b, -(-length // page) :] = len(pages)
    return pool, table


def assert_right(o, lse, q, k, v, lengths):
    for b, length in enumerate(lengths.tolist()):
        part = (q[b], k[b, :, :length], v[b, :, :length])
        truth, lse_truth = (torch.from_numpy(x) for x in attention_float64(*part, causal=True))
        seen = lse_truth.isfinite()
        rounding = (truth.to(q.dtype) - truth).abs().max()
        limit = 1e-5 if q.dtype == torch.float32 else 4 * rounding
        assert ((o[b].cpu() - truth).abs() <= limit).all()
        slack = 1e-5 if q.dtype == torch.float32 else 1e-3
        assert ((lse[b].cpu() - lse_truth)[seen].abs() <= slack).all()
        assert (lse[b].cpu()[~seen] == float("-inf")).all()


CASES = [  # heads, kv_heads, n_q, n_max, d, lengths
    (4, 2, 1, 200, 32, (200, 1, 130)),
    (2, 2, 3, 150, 16, (150, 2, 64)),  # two keys for three queries: the first sees none
    (8, 1, 1, 70, 96, (70, 65, 33)),
]


@pytest.mark.parametrize("splits", [None, 1, 3, 128])
@pytest.mark.parametrize("dtype", HERE, ids=str)
@pytest.mark.parametrize(("heads", "kv_heads", "n_q", "n_max", "d", "lengths"), CASES)
def test_a_ragged_batch(heads, kv_heads, n_q, n_max, d, lengths, dtype, splits):
    q, k, v = make(len(lengths), heads, kv_heads, n_q, n_max, d, dtype)
    lengths = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)
    o, lse = flash_decode(q, k, v, lengths, splits=splits)
    assert_right(o, lse, q, k, v, lengths)
    (k_pages, table), (v_pages, _) = (paged(x, 16, lengths) for x in (k, v))
    again, lse_again = paged_decode(q, k_pages, v_pages, table, lengths, splits=splits)
    assert_right(again, lse_again, q, k, v, lengths)


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


@pytest.mark.parametrize(("pairs", "splits"), [(8, 49), (32, 12), (128, 3), (512, 2)])
def test_three_programs_share_an_sm_where_the_cache_is_in_pages(pairs, splits):
    assert splits_for(132, pairs, 1024, paged=True) == splits


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
    (k_pages, table), (v_pages, _) = (paged(x, 64, lengths) for x in (k, v))
    assert_right(*paged_decode(q, k_pages, v_pages, table, lengths), q, k, v, lengths)
