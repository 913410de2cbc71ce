"""What the tests of decode share: inputs, a cache cut into pages, the comparison with float64."""

from __future__ import annotations

import torch

from course_lib.attention.truth import attention_float64
from course_lib.kernels.flash_forward import DTYPES

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HERE = DTYPES if torch.cuda.is_available() else DTYPES[:2]


def make(batch, heads, kv_heads, n_q, n_max, d, dtype):
    torch.manual_seed(n_max + d)
    shapes = ((heads, n_q), (kv_heads, n_max), (kv_heads, n_max))
    return [torch.randn(batch, *shape, d).to(DEVICE, dtype) for shape in shapes]


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


def in_pages(x, page, lengths, dtype=torch.int32):
    """Cut (B, H_kv, n_max, d) into pages of a shuffled pool; return the pool and its block table.

    What belongs to nobody is NaN: a spare page, which the table names behind each sequence's last,
    and the slots behind its last key.
    """
    batch, kv_heads, n_max, d = x.shape
    per_sequence = -(-n_max // page)
    room = x.new_full((batch, kv_heads, per_sequence * page, d), float("nan"))
    for b, length in enumerate(lengths.tolist()):
        room[b, :, :length] = x[b, :, :length]
    pages = room.view(batch, kv_heads, per_sequence, page, d).transpose(1, 2).flatten(0, 1)
    order = torch.randperm(len(pages), generator=torch.Generator().manual_seed(n_max)).to(x.device)
    pool = x.new_full((len(pages) + 1, kv_heads, page, d), float("nan"))
    pool[order] = pages
    table = order.view(batch, per_sequence).to(dtype, copy=True)
    for b, length in enumerate(lengths.tolist()):
        table[b, -(-length // page) :] = len(pages)
    return pool, table


CASES = [  # heads, kv_heads, n_q, n_max, d, lengths
    (4, 2, 1, 200, 32, (200, 1, 130)),
    (2, 2, 3, 150, 16, (150, 2, 64)),  # two keys for three queries: the first sees none
    (8, 1, 1, 70, 96, (70, 65, 33)),
]
