"""Decoding: a few new queries against a long cache, a ragged batch at once.

A single query row leaves most of a GPU idle, so the *keys* are split among programs (split-K: Dao
et al. 2023, "Flash-Decoding"), each of which returns a normalised o and its lse; these merge, since
the state of online softmax is a monoid (lesson 03). The order does not matter either: tiles are
dealt out like cards, so programs that run together read neighbouring keys, which memory serves
faster than distant ones, and a short sequence keeps all of them busy. All query heads that share a
key head stand in one tile (GQA packing), so K and V are read once. Where a block table says in
which page a key lies (PAGE), its address is looked up, and nothing else changes: see `paged`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from course_lib.kernels.attention_forward import dot, store_rows
from course_lib.kernels.flash_forward import DTYPES
from course_lib.kernels.launch import (
    cdiv,
    launch,
    likeness,
    multiprocessors,
    on_device_of,
    power_of_2,
)
from course_lib.kernels.scores import LN_2, LOG2_E
from course_lib.kernels.tiles import decode_tiles_for, sm_of

MOST_SORTED = 128  # sequences: every program compares each with each; 256 cost more than it saved


def starts_early(sm: int) -> bool:
    """Return whether the merging kernel can be started early; Triton 3.4's words for it fail."""
    return sm >= 90 and not triton.__version__.startswith("3.4.")


# fmt: off
@triton.jit
def longest(rank, lengths, BATCH: tl.constexpr):
    """Return which sequence has this rank if the longest come first; of equals, the first."""
    n = tl.num_programs(2)
    each = tl.arange(0, BATCH)
    found = tl.load(lengths + each, mask=each < n, other=-1)
    longer = found[:, None] > found[None, :]
    earlier = (found[:, None] == found[None, :]) & (each[:, None] < each[None, :])
    place = tl.sum((longer | earlier).to(tl.int32), 0)  # how many come before each
    return tl.sum(tl.where(place == rank, each, 0), 0)


@triton.jit
def split_kernel(
    q, k, v, o, lse, lengths, table,
    q_batch, q_head, q_row, k_page, k_head, k_row, v_page, v_head, v_row, table_batch,
    kv_heads, n_q, n_max, scale,
    GROUP: tl.constexpr, RAGGED: tl.constexpr, BATCH: tl.constexpr, PAGE: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr,
    EARLY: tl.constexpr,
):
    """One program: one hand of one sequence's key tiles, one key head, all queries that share it.

    PAGE is 0 for a cache in one piece; then k_page is its stride along the batch. Programs start
    in the grid's order: with BATCH, a power of two, the longest sequences first, so that no long
    one begins late and ends alone.
    """
    split = tl.program_id(0)
    kv_head = tl.program_id(1).to(tl.int64)
    batch = tl.program_id(2)
    if BATCH:
        batch = longest(batch, lengths, BATCH)
    batch = batch.to(tl.int64)
    length = n_max
    if RAGGED:
        length = tl.load(lengths + batch)

    packed = tl.arange(0, ROWS)  # (rows,) = (group member, query), one after the other
    member, query = packed // n_q, packed % n_q
    cols = tl.arange(0, BLOCK_D)
    q += batch * q_batch + kv_head * GROUP * q_head
    inside = (packed[:, None] < GROUP * n_q) & (cols[None, :] < HEAD_DIM)
    q_tile = tl.load(q + (member * q_head + query * q_row)[:, None] + cols[None, :],
                     mask=inside, other=0.0)
    last = length - n_q + query  # the last key that each row may see

    m = tl.full((ROWS,), float("-inf"), tl.float32)
    l_sum = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, BLOCK_D), tl.float32)
    for first in range(split * BLOCK_K, length, tl.num_programs(0) * BLOCK_K):
        keys = first + tl.arange(0, BLOCK_K)
        if PAGE:
            page = tl.load(table + batch * table_batch + keys // PAGE, mask=keys < length, other=0)
            k_rows = page.to(tl.int64) * k_page + keys % PAGE * k_row
            v_rows = page.to(tl.int64) * v_page + keys % PAGE * v_row
        else:
            k_rows = batch * k_page + keys.to(tl.int64) * k_row
            v_rows = batch * v_page + keys.to(tl.int64) * v_row
        real = (keys[:, None] < length) & (cols[None, :] < HEAD_DIM)
        k_tile = tl.load(k + kv_head * k_head + k_rows[:, None] + cols[None, :],
                         mask=real, other=0.0)
        v_tile = tl.load(v + kv_head * v_head + v_rows[:, None] + cols[None, :],
                         mask=real, other=0.0)
        s = dot(q_tile, tl.trans(k_tile)) * scale
        s = tl.where(keys[None, :] <= last[:, None], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp2(m - m_safe)
        p = tl.exp2(s - m_safe[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = dot(p.to(v_tile.dtype), v_tile, acc * alpha[:, None])
        m = m_new

    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)  # an empty hand is the monoid's identity
    part = ((batch * kv_heads + kv_head) * tl.num_programs(0) + split) * GROUP * n_q
    store_rows(o + part * HEAD_DIM, acc / l_safe[:, None], packed, GROUP * n_q,
               HEAD_DIM, 1, HEAD_DIM, BLOCK_D)
    tl.store(lse + part + packed, m + tl.log2(l_safe), mask=packed < GROUP * n_q)
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def merge_kernel(
    parts, part_lse, o, lse, n_splits, rows,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, SPLITS: tl.constexpr, EARLY: tl.constexpr,
):
    """One program: one row's parts, weighed by exp(lse) and added up.

    EARLY (Hopper and later, "programmatic dependent launch"): it is started while the last parts
    are still written, and waits for them here, so that nobody waits for its launch.
    """
    if EARLY:
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0)
    kv = tl.program_id(1).to(tl.int64)
    splits, cols = tl.arange(0, SPLITS), tl.arange(0, BLOCK_D)
    at = (kv * n_splits + splits) * rows + row
    weight = tl.load(part_lse + at, mask=splits < n_splits, other=float("-inf"))
    m = tl.max(weight, 0)
    m_safe = tl.where(m == float("-inf"), 0.0, m)
    weight = tl.exp2(weight - m_safe)  # (splits,)
    total = tl.sum(weight, 0)
    inside = (splits[:, None] < n_splits) & (cols[None, :] < HEAD_DIM)
    part = tl.load(parts + at[:, None] * HEAD_DIM + cols[None, :], mask=inside, other=0.0)
    safe = tl.where(total == 0.0, 1.0, total)
    o_row = tl.sum(part * weight[:, None], 0) / safe
    out = kv * rows + row
    tl.store(o + out * HEAD_DIM + cols, o_row.to(o.dtype.element_ty), mask=cols < HEAD_DIM)
    tl.store(lse + out, (m + tl.log2(safe)) * LN_2)
# fmt: on


def flash_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    splits: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of the last few tokens of every sequence over its cache.

    Args:
        q: (B, H, n_q, d), the newest n_q tokens, which the cache already holds; causal among
            themselves. n_q * H / H_kv at most 64, on a T4 above d = 128 at most 32. float32,
            float16 or (on a GPU only) bfloat16.
        k: (B, H_kv, n_max, d), the cache, rows contiguous; H_kv divides H.
        v: like k.
        lengths: (B,), int32: how many keys each sequence has, at most n_max; default: all.
        scale: of the scores; default d ** -0.5.
        splits: how many programs share a sequence's keys; default: enough to fill the GPU.

    Returns:
        o (B, H, n_q, d) in q's dtype, and lse (B, H, n_q), float32, natural log. A query without
        any key has o = 0 and lse = -inf.

    Raises:
        TypeError: for dtypes that differ or do not work.
        ValueError: for shapes or devices that do not fit.
    """
    check(q, k, v)
    if k.dim() != 4 or k.shape[0] != q.shape[0]:
        raise ValueError(
            f"k must have shape (B, H_kv, n_max, d) with q's batch {q.shape[0]}, "
            f"got {tuple(k.shape)}."
        )
    if lengths is not None:
        check_lengths(lengths, q.shape[0])
    return launch_splits(q, k, v, lengths, None, scale, splits)


def launch_splits(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None,
    table: torch.Tensor | None,
    scale: float | None,
    splits: int | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the two kernels over caches or, with a table, over pages; both are checked already.

    k and v are (B, H_kv, n_max, d), or (n_pages, H_kv, page_size, d) and table (B, max_pages).
    """
    batch, heads, n_q, d = q.shape
    _, kv_heads, n_max, _ = k.shape
    page = 0
    if table is not None:
        page, n_max = n_max, n_max * table.shape[1]
    if heads % kv_heads:
        raise ValueError(f"k must have a number of heads that divides q's {heads}, got {kv_heads}.")
    rows = heads // kv_heads * n_q
    most = 32 if sm_of(q) < 80 and d > 128 else 64  # a T4's shared memory holds no more
    if rows > most:
        raise ValueError(f"n_q * H / H_kv must be at most {most}, got {rows}.")
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    if n_max == 0 or o.numel() == 0:
        return o.zero_(), lse.fill_(float("-inf"))
    q = q if q.stride(-1) == 1 else q.contiguous()
    tiles = decode_tiles_for(q, rows)
    n_tiles = cdiv(n_max, tiles.block_k)
    ragged = lengths is not None
    sms = multiprocessors(q)
    splits = splits or splits_for(sms, batch * kv_heads, n_tiles, page > 0, ragged)
    n_splits = min(splits, n_tiles)
    parts = torch.empty(batch, kv_heads, n_splits, rows, d, dtype=torch.float32, device=q.device)
    part_lse = torch.empty(batch, kv_heads, n_splits, rows, dtype=torch.float32, device=q.device)
    block_d = power_of_2(d)
    padded = 1 << (n_splits - 1).bit_length()
    early = starts_early(sm_of(q))
    at_once: dict[str, Any] = {"launch_pdl": True} if early else {}
    given = (q, k, v, *(x for x in (lengths, table) if x is not None))
    like = likeness(given, ragged, n_splits)
    with on_device_of(q):
        launch(
            *(split_kernel, (n_splits, kv_heads, batch), like),
            *(q, k, v, parts, part_lse, lengths, table, *q.stride()[:3]),
            *(*k.stride()[:3], *v.stride()[:3], 0 if table is None else table.stride(0)),
            *(kv_heads, n_q, n_max, (d**-0.5 if scale is None else scale) * LOG2_E),
            GROUP=heads // kv_heads,
            RAGGED=ragged,
            BATCH=to_sort(sms, batch, batch * kv_heads * n_splits) if ragged else 0,
            PAGE=page,
            HEAD_DIM=d,
            BLOCK_D=block_d,
            ROWS=tiles.block_q,
            BLOCK_K=tiles.block_k,
            EARLY=early,
            num_warps=tiles.num_warps,
            num_stages=tiles.num_stages,
        )
        launch(
            *(merge_kernel, (rows, batch * kv_heads), like),
            *(parts, part_lse, o, lse, n_splits, rows),
            HEAD_DIM=d,
            BLOCK_D=block_d,
            SPLITS=padded,
            EARLY=early,
            num_warps=merge_warps(padded, block_d),
            **at_once,
        )
    return o, lse


def merge_warps(splits: int, block_d: int) -> int:
    """Return as many warps, at most 8, as leave a thread 64 numbers of a row's parts."""
    return max(1, min(8, splits * block_d // 2048))


def to_sort(sms: int, batch: int, programs: int) -> int:
    """Return the power of two that holds the sequences to sort by length; 0: in their own order.

    A program needs 1 to 2 us to find its sequence. Three programs run on an SM at once: where
    nearly all do, no order makes up for that (``h100_ragged``).
    """
    return power_of_2(batch) if batch <= MOST_SORTED and programs > 6 * sms else 0


def splits_for(sms: int, pairs: int, tiles: int, paged: bool = False, ragged: bool = False) -> int:
    """Return among how many programs to deal the tiles of one sequence and key head, at most 128.

    As measured on an H100 (``h100_decode``): one program per SM is best, and three for a cache in
    pages, where one waits for an address while others load. Two, where one would leave more than a
    tenth of the SMs idle. Where not all pairs run at once, programs short enough that the last to
    start do not run alone. In a ragged batch a program has at most 32 tiles, up to 16 programs:
    else all wait for the longest sequence.
    """
    wanted = sms * (3 if paged else 1) // pairs
    if wanted * pairs < 0.9 * sms:
        wanted = (2 if pairs <= 2 * sms else 8) * sms // pairs
    if ragged:
        wanted = max(wanted, min(tiles // 32, 16))
    return max(1, min(wanted, tiles // 4, 128))


def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raise one clear sentence for what neither kind of cache can be."""
    if q.dtype not in DTYPES:
        raise TypeError(f"q must be float32, float16 or bfloat16, got {q.dtype}.")
    if q.dtype == torch.bfloat16 and triton.knobs.runtime.interpret:
        raise TypeError("bfloat16 does not work in Triton's interpreter: use float16 or float32.")
    if q.dim() != 4:
        raise ValueError(f"q must have shape (B, H, n_q, d), got {tuple(q.shape)}.")
    for name, x in (("k", k), ("v", v)):
        if x.dtype != q.dtype:
            raise TypeError(f"{name} must have q's dtype {q.dtype}, got {x.dtype}.")
        if x.device != q.device:
            raise ValueError(f"{name} must be on q's device {q.device}, got {x.device}.")
        if x.shape[-1] != q.shape[-1]:
            raise ValueError(f"{name} must have q's head_dim {q.shape[-1]}, got {x.shape[-1]}.")
        if x.stride(-1) != 1:
            raise ValueError(f"the rows of {name} must be contiguous, got strides {x.stride()}.")
    if k.shape != v.shape:
        raise ValueError(f"v must have k's shape {tuple(k.shape)}, got {tuple(v.shape)}.")


def check_lengths(lengths: torch.Tensor, batch: int) -> None:
    """Raise one clear sentence unless lengths are (batch,), int32."""
    if lengths.dtype != torch.int32:
        raise TypeError(f"lengths must be int32, got {lengths.dtype}.")
    if lengths.shape != (batch,):
        raise ValueError(f"lengths must have shape ({batch},), got {tuple(lengths.shape)}.")
