"""The kernels of the backward pass: no N x N buffer either, P is computed again from the saved lse.

Dao et al. 2022 (arXiv:2205.14135, appendix B.4), in FlashAttention-2's loop order
(arXiv:2307.08691, section 3.2) but without atomics: three kernels, of which one owns a tile of keys
(dK, dV) and one a tile of queries (dQ). With s = scale * q k^T, p = exp(s - lse), o = p v:

    dV = P^T dO        dP = dO V^T        dS = P * (dP - delta)
    dK = scale dS^T Q  dQ = scale dS K    delta = rowsum(dO * O)

Scores are computed a second time for dQ: 7 products instead of 5, and the same sum in every run.
What a kernel walks over (Q and dO, or K and V) it loads through pointers or, DESCRIBED, through
tensor descriptors. Scores that are bent and sequences that are packed are switches: see `scores`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from course_lib.kernels.attention_forward import dot, load_rows, store_rows, visible
from course_lib.kernels.scores import LN_2, capped, passed_by_cap, slope_of, sloped, span


# fmt: off
@triton.jit
def rows_kernel(
    o, do, lse, dlse, delta, lse_2, dq_sum, do_batch, do_head, do_row, do_col, heads, n_q, n_out,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr, PACKED: tl.constexpr,
):
    """What every tile of a row needs, once: delta = rowsum(dO * O) - dlse, and lse in base 2.
    (dlse None: nothing depends on lse.) For each head n_out rows are written. Where dQ is added up
    in memory, dq_sum becomes zero. PACKED: one row after the other, no matter whose; in o, (n_q,
    heads, HEAD_DIM), the heads of a row lie beside each other.

    A row that sees no key has lse = -inf; it becomes inf, so that no p comes of it; likewise past
    the last row.
    """
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    index = tl.program_id(1).to(tl.int64)
    if PACKED:
        o += index * HEAD_DIM
        o_row = heads * HEAD_DIM
    else:
        o += index * n_q * HEAD_DIM
        o_row = HEAD_DIM
    do += index // heads * do_batch + index % heads * do_head
    o_tile = load_rows(o, rows, n_q, o_row, 1, HEAD_DIM, BLOCK_D, False).to(tl.float32)
    do_tile = load_rows(do, rows, n_q, do_row, do_col, HEAD_DIM, BLOCK_D, False).to(tl.float32)
    inside = rows < n_q
    at = index * n_q + rows
    to = index * n_out + rows
    total = tl.sum(o_tile * do_tile, 1)
    if dlse is not None:
        total -= tl.load(dlse + at, mask=inside, other=0.0)
    tl.store(delta + to, total, mask=rows < n_out)
    base_2 = tl.load(lse + at, mask=inside, other=float("-inf")) / LN_2
    base_2 = tl.where(base_2 == float("-inf"), float("inf"), base_2)
    tl.store(lse_2 + to, base_2, mask=rows < n_out)
    if dq_sum is not None:
        place = to[:, None] * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
        tl.store(dq_sum + place, tl.zeros((BLOCK_Q, BLOCK_D), tl.float32))


@triton.jit
def walked_tile(
    x, head, first, n, row, col,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr,
    DESCRIBED: tl.constexpr,
):
    """Load rows first .. first + BLOCK - 1 of a head, zero outside: x points at the head, or
    describes all of them."""
    if DESCRIBED:
        tile = x.load([head.to(tl.int32), first, 0]).reshape(BLOCK, HEAD_DIM)
    else:
        rows = first + tl.arange(0, BLOCK)
        tile = load_rows(x, rows, n, row, col, HEAD_DIM, BLOCK_D, WHOLE)
    return tile


@triton.jit
def add_queries(
    start, stop, dk, dv, k_tile, v_tile, q, do, head, lse_2, delta, keys, n_q, n_k, window, scale,
    softcap, slope, q_row, q_col, do_row, do_col,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, DESCRIBED: tl.constexpr, MASK: tl.constexpr,
):
    """Add what queries start .. stop - 1 say about this tile of keys. Scores stand transposed."""
    for first in range(start, stop, BLOCK_Q):
        rows = first + tl.arange(0, BLOCK_Q)  # (block_q,)
        q_tile = walked_tile(
            q, head, first, n_q, q_row, q_col, HEAD_DIM, BLOCK_D, BLOCK_Q, not MASK, DESCRIBED)
        lse_row = tl.load(lse_2 + rows, mask=rows < n_q, other=float("inf"))
        s = dot(k_tile, tl.trans(q_tile)) * scale  # (block_k, block_q), base 2
        s = capped(s, softcap)
        bent = sloped(s, slope, rows[None, :], keys[:, None], n_q, n_k)
        p = tl.exp2(bent - lse_row[None, :])
        if MASK:
            seen = visible(rows[None, :], keys[:, None], n_q, n_k, window, CAUSAL, WINDOWED)
            p = tl.where(seen, p, 0.0)
        do_tile = walked_tile(
            do, head, first, n_q, do_row, do_col, HEAD_DIM, BLOCK_D, BLOCK_Q, not MASK, DESCRIBED)
        dv = dot(p.to(do_tile.dtype), do_tile, dv)
        dp = dot(v_tile, tl.trans(do_tile))  # (block_k, block_q)
        delta_row = tl.load(delta + rows, mask=rows < n_q, other=0.0)
        ds = passed_by_cap(p * (dp - delta_row[None, :]), s, softcap)
        dk = dot(ds.to(q_tile.dtype), q_tile, dk)
    return dk, dv


@triton.jit
def dk_dv_kernel(
    q, k, v, do, lse_2, delta, dk, dv,
    q_batch, q_head, q_row, q_col, k_batch, k_head, k_row, k_col,
    v_batch, v_head, v_row, v_col, do_batch, do_head, do_row, do_col,
    kv_heads, n_q, n_k, window, scale, scale_2, softcap, slopes, cu_q, cu_k,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, DESCRIBED: tl.constexpr,
):
    """One program: one tile of keys of one key head, against all queries that may see it.

    Packed (cu_q, cu_k), n_q and n_k are how many rows there are in all, lse_2 and delta are (heads,
    n_q), and dk and dv (n_k, kv_heads, HEAD_DIM).
    """
    tile = tl.program_id(0)
    index = tl.program_id(1).to(tl.int64)
    batch, kv_head = index // kv_heads, index % kv_heads
    k += batch * k_batch + kv_head * k_head
    v += batch * v_batch + kv_head * v_head
    rows_of_head = n_q  # from one head to the next in lse_2 and delta
    if cu_q is not None:
        begin_q, n_q = span(cu_q, batch)
        begin_k, n_k = span(cu_k, batch)
        q += begin_q * q_row
        do += begin_q * do_row
        lse_2 += begin_q
        delta += begin_q
        k += begin_k * k_row
        v += begin_k * v_row
        n_q = tl.where(tile * BLOCK_K < n_k, n_q, 0)  # no query for a tile behind the last key
        index = kv_head  # all sequences lie in one
    keys = tile * BLOCK_K + tl.arange(0, BLOCK_K)  # (block_k,)
    k_tile = load_rows(k, keys, n_k, k_row, k_col, HEAD_DIM, BLOCK_D, False)
    v_tile = load_rows(v, keys, n_k, v_row, v_col, HEAD_DIM, BLOCK_D, False)

    # queries: from the first that sees some key, masked until all see all, masked at the end
    start = 0
    whole_start = 0
    stop = n_q
    whole_stop = n_q // BLOCK_Q * BLOCK_Q
    if CAUSAL:  # query i sees key j iff i >= j - n_k + n_q
        first = tile * BLOCK_K - n_k + n_q
        start = tl.maximum(first, 0) // BLOCK_Q * BLOCK_Q
        whole_start = tl.cdiv(tl.maximum(first + BLOCK_K - 1, 0), BLOCK_Q) * BLOCK_Q
    if WINDOWED:  # and iff i < j - n_k + n_q + window
        stop = tl.minimum(n_q, first + BLOCK_K - 1 + window)
        whole_stop = tl.minimum(whole_stop, tl.maximum(first + window, 0) // BLOCK_Q * BLOCK_Q)
    # keys past the end need no mask: what they add lands in rows that are not stored
    whole_start = tl.minimum(whole_start, tl.maximum(stop, 0))
    whole_stop = tl.maximum(whole_stop, whole_start)

    dk_tile = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    dv_tile = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    for member in range(GROUP):
        head = index * GROUP + member  # among all heads of all sequences
        row0 = head * rows_of_head
        slope = slope_of(slopes, kv_head * GROUP + member)
        head_q, head_do = q, do
        if not DESCRIBED:
            head_q += batch * q_batch + (kv_head * GROUP + member) * q_head
            head_do += batch * do_batch + (kv_head * GROUP + member) * do_head
        if CAUSAL:
            dk_tile, dv_tile = add_queries(
                start, whole_start, dk_tile, dv_tile, k_tile, v_tile, head_q, head_do, head,
                lse_2 + row0, delta + row0, keys, n_q, n_k, window, scale_2,
                softcap, slope, q_row, q_col, do_row, do_col,
                HEAD_DIM, BLOCK_D, BLOCK_Q, CAUSAL, WINDOWED, DESCRIBED, True)
        dk_tile, dv_tile = add_queries(
            whole_start, whole_stop, dk_tile, dv_tile, k_tile, v_tile, head_q, head_do, head,
            lse_2 + row0, delta + row0, keys, n_q, n_k, window, scale_2,
            softcap, slope, q_row, q_col, do_row, do_col,
            HEAD_DIM, BLOCK_D, BLOCK_Q, CAUSAL, WINDOWED, DESCRIBED, False)
        dk_tile, dv_tile = add_queries(
            whole_stop, stop, dk_tile, dv_tile, k_tile, v_tile, head_q, head_do, head,
            lse_2 + row0, delta + row0, keys, n_q, n_k, window, scale_2,
            softcap, slope, q_row, q_col, do_row, do_col,
            HEAD_DIM, BLOCK_D, BLOCK_Q, CAUSAL, WINDOWED, DESCRIBED, True)
    if cu_k is not None:
        out = begin_k * kv_heads + kv_head
        out_row = kv_heads * HEAD_DIM
    else:
        out = index * n_k
        out_row = HEAD_DIM
    dk += out * HEAD_DIM
    dv += out * HEAD_DIM
    store_rows(dk, dk_tile * scale, keys, n_k, out_row, 1, HEAD_DIM, BLOCK_D)
    store_rows(dv, dv_tile, keys, n_k, out_row, 1, HEAD_DIM, BLOCK_D)


@triton.jit
def add_key_tiles(
    start, stop, dq, q_tile, do_tile, lse_row, delta_row, k, v, head, rows, n_q, n_k, window, scale,
    softcap, slope, k_row, k_col, v_row, v_col,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, DESCRIBED: tl.constexpr, MASK: tl.constexpr,
):
    """Add what keys start .. stop - 1 say about this tile of queries."""
    for first in range(start, stop, BLOCK_K):
        keys = first + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = walked_tile(
            k, head, first, n_k, k_row, k_col, HEAD_DIM, BLOCK_D, BLOCK_K, not MASK, DESCRIBED)
        v_tile = walked_tile(
            v, head, first, n_k, v_row, v_col, HEAD_DIM, BLOCK_D, BLOCK_K, not MASK, DESCRIBED)
        s = capped(dot(q_tile, tl.trans(k_tile)) * scale, softcap)  # (block_q, block_k), base 2
        bent = sloped(s, slope, rows[:, None], keys[None, :], n_q, n_k)
        p = tl.exp2(bent - lse_row[:, None])
        if MASK:
            seen = visible(rows[:, None], keys[None, :], n_q, n_k, window, CAUSAL, WINDOWED)
            p = tl.where(seen, p, 0.0)
        ds = p * (dot(do_tile, tl.trans(v_tile)) - delta_row[:, None])
        ds = passed_by_cap(ds, s, softcap)
        dq = dot(ds.to(k_tile.dtype), k_tile, dq)
    return dq


@triton.jit
def dq_kernel(
    q, k, v, do, lse_2, delta, dq,
    q_batch, q_head, q_row, q_col, k_batch, k_head, k_row, k_col,
    v_batch, v_head, v_row, v_col, do_batch, do_head, do_row, do_col,
    heads, n_q, n_k, window, scale, scale_2, softcap, slopes, cu_q, cu_k,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, DESCRIBED: tl.constexpr,
):
    """One program: one tile of queries of one head, against all keys it may see.

    Packed as in `dk_dv_kernel`; dq is then (n_q, heads, HEAD_DIM).
    """
    tile = tl.program_id(0)
    if CAUSAL:  # the long ones first
        tile = tl.num_programs(0) - 1 - tile
    index = tl.program_id(1).to(tl.int64)
    batch, head = index // heads, index % heads
    q += batch * q_batch + head * q_head
    do += batch * do_batch + head * do_head
    kv_head = index // GROUP  # among all key heads of all sequences
    if not DESCRIBED:
        k += batch * k_batch + head // GROUP * k_head
        v += batch * v_batch + head // GROUP * v_head
    rows_of_head = n_q
    if cu_q is not None:
        begin_q, n_q = span(cu_q, batch)
        begin_k, n_k = span(cu_k, batch)
        q += begin_q * q_row
        do += begin_q * do_row
        lse_2 += begin_q
        delta += begin_q
        k += begin_k * k_row
        v += begin_k * v_row
        n_k = tl.where(tile * BLOCK_Q < n_q, n_k, 0)  # no key for a tile behind the last row
        index = head
    slope = slope_of(slopes, head)
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q_tile = load_rows(q, rows, n_q, q_row, q_col, HEAD_DIM, BLOCK_D, False)
    do_tile = load_rows(do, rows, n_q, do_row, do_col, HEAD_DIM, BLOCK_D, False)
    lse_row = tl.load(lse_2 + index * rows_of_head + rows, mask=rows < n_q, other=float("inf"))
    delta_row = tl.load(delta + index * rows_of_head + rows, mask=rows < n_q, other=0.0)

    position = tile * BLOCK_Q + n_k - n_q  # of the first row, among the keys
    start = 0
    whole_start = 0
    stop = n_k
    whole_stop = n_k // BLOCK_K * BLOCK_K
    if CAUSAL:
        stop = tl.minimum(n_k, position + BLOCK_Q)
        whole_stop = tl.minimum(n_k, tl.maximum(position + 1, 0)) // BLOCK_K * BLOCK_K
    if WINDOWED:
        start = tl.maximum(position - window + 1, 0) // BLOCK_K * BLOCK_K
        whole_start = tl.cdiv(tl.maximum(position + BLOCK_Q - window, 0), BLOCK_K) * BLOCK_K
        whole_start = tl.minimum(whole_start, whole_stop)
    dq_tile = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    if WINDOWED:
        dq_tile = add_key_tiles(
            start, whole_start, dq_tile, q_tile, do_tile, lse_row, delta_row, k, v, kv_head, rows,
            n_q, n_k, window, scale_2, softcap, slope, k_row, k_col, v_row, v_col,
            HEAD_DIM, BLOCK_D, BLOCK_K, CAUSAL, WINDOWED, DESCRIBED, True)
    dq_tile = add_key_tiles(
        whole_start, whole_stop, dq_tile, q_tile, do_tile, lse_row, delta_row, k, v, kv_head, rows,
        n_q, n_k, window, scale_2, softcap, slope, k_row, k_col, v_row, v_col,
        HEAD_DIM, BLOCK_D, BLOCK_K, CAUSAL, WINDOWED, DESCRIBED, False)
    dq_tile = add_key_tiles(
        whole_stop, stop, dq_tile, q_tile, do_tile, lse_row, delta_row, k, v, kv_head, rows,
        n_q, n_k, window, scale_2, softcap, slope, k_row, k_col, v_row, v_col,
        HEAD_DIM, BLOCK_D, BLOCK_K, CAUSAL, WINDOWED, DESCRIBED, True)
    if cu_q is not None:
        dq += (begin_q * heads + head) * HEAD_DIM
        out_row = heads * HEAD_DIM
    else:
        dq += index * n_q * HEAD_DIM
        out_row = HEAD_DIM
    store_rows(dq, dq_tile * scale, rows, n_q, out_row, 1, HEAD_DIM, BLOCK_D)
# fmt: on
