"""The backward pass: no N x N buffer either, P is computed again from the saved lse.

Dao et al. 2022 (arXiv:2205.14135, appendix B.4), in FlashAttention-2's loop order
(arXiv:2307.08691, section 3.2) but without atomics: three kernels, of which one owns a tile of keys
(dK, dV) and one a tile of queries (dQ). With s = scale * q k^T, p = exp(s - lse), o = p v:

    dV = P^T dO        dP = dO V^T        dS = P * (dP - delta)
    dK = scale dS^T Q  dQ = scale dS K    delta = rowsum(dO * O)

Scores are computed a second time for dQ: 7 products instead of 5, and the same sum in every run.
What a kernel walks over (Q and dO, or K and V) it loads through tensor descriptors where that was
measured to be faster (`by_descriptors`): without a pointer for every row there are registers left.

On Hopper `gluon_backward` does all of it but the sums of rows in one kernel (`by_hand`).
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from course_lib.kernels.attention_forward import (
    LN_2,
    LOG2_E,
    dot,
    gluon_works,
    in_line_on_hopper,
    load_rows,
    store_rows,
    visible,
)
from course_lib.kernels.ladder import described
from course_lib.kernels.launch import cdiv, launch, likeness, on_device_of, power_of_2
from course_lib.kernels.tiles import backward_tiles_for


# fmt: off
@triton.jit
def rows_kernel(
    o, do, lse, dlse, delta, lse_2, dq_sum, do_batch, do_head, do_row, do_col, heads, n_q, n_out,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr,
):
    """What every tile of a row needs, once: delta = rowsum(dO * O) - dlse, and lse in base 2.
    (dlse None: nothing depends on lse.) For each head n_out rows are written. Where dQ is added up
    in memory, dq_sum becomes zero.

    A row that sees no key has lse = -inf; it becomes inf, so that no p comes of it; likewise past
    the last row.
    """
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    index = tl.program_id(1).to(tl.int64)
    o += index * n_q * HEAD_DIM
    do += index // heads * do_batch + index % heads * do_head
    o_tile = load_rows(o, rows, n_q, HEAD_DIM, 1, HEAD_DIM, BLOCK_D, False).to(tl.float32)
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
    q_row, q_col, do_row, do_col,
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
        p = tl.exp2(s - lse_row[None, :])
        if MASK:
            seen = visible(rows[None, :], keys[:, None], n_q, n_k, window, CAUSAL, WINDOWED)
            p = tl.where(seen, p, 0.0)
        do_tile = walked_tile(
            do, head, first, n_q, do_row, do_col, HEAD_DIM, BLOCK_D, BLOCK_Q, not MASK, DESCRIBED)
        dv = dot(p.to(do_tile.dtype), do_tile, dv)
        dp = dot(v_tile, tl.trans(do_tile))  # (block_k, block_q)
        delta_row = tl.load(delta + rows, mask=rows < n_q, other=0.0)
        ds = p * (dp - delta_row[None, :])
        dk = dot(ds.to(q_tile.dtype), q_tile, dk)
    return dk, dv


@triton.jit
def dk_dv_kernel(
    q, k, v, do, lse_2, delta, dk, dv,
    q_batch, q_head, q_row, q_col, k_batch, k_head, k_row, k_col,
    v_batch, v_head, v_row, v_col, do_batch, do_head, do_row, do_col,
    kv_heads, n_q, n_k, window, scale, scale_2,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, DESCRIBED: tl.constexpr,
):
    """One program: one tile of keys of one key head, against all queries that may see it."""
    tile = tl.program_id(0)
    index = tl.program_id(1).to(tl.int64)
    batch, kv_head = index // kv_heads, index % kv_heads
    k += batch * k_batch + kv_head * k_head
    v += batch * v_batch + kv_head * v_head
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
        row0 = head * n_q
        head_q, head_do = q, do
        if not DESCRIBED:
            head_q += batch * q_batch + (kv_head * GROUP + member) * q_head
            head_do += batch * do_batch + (kv_head * GROUP + member) * do_head
        if CAUSAL:
            dk_tile, dv_tile = add_queries(
                start, whole_start, dk_tile, dv_tile, k_tile, v_tile, head_q, head_do, head,
                lse_2 + row0, delta + row0, keys, n_q, n_k, window, scale_2,
                q_row, q_col, do_row, do_col,
                HEAD_DIM, BLOCK_D, BLOCK_Q, CAUSAL, WINDOWED, DESCRIBED, True)
        dk_tile, dv_tile = add_queries(
            whole_start, whole_stop, dk_tile, dv_tile, k_tile, v_tile, head_q, head_do, head,
            lse_2 + row0, delta + row0, keys, n_q, n_k, window, scale_2,
            q_row, q_col, do_row, do_col,
            HEAD_DIM, BLOCK_D, BLOCK_Q, CAUSAL, WINDOWED, DESCRIBED, False)
        dk_tile, dv_tile = add_queries(
            whole_stop, stop, dk_tile, dv_tile, k_tile, v_tile, head_q, head_do, head,
            lse_2 + row0, delta + row0, keys, n_q, n_k, window, scale_2,
            q_row, q_col, do_row, do_col,
            HEAD_DIM, BLOCK_D, BLOCK_Q, CAUSAL, WINDOWED, DESCRIBED, True)
    dk += index * n_k * HEAD_DIM
    dv += index * n_k * HEAD_DIM
    store_rows(dk, dk_tile * scale, keys, n_k, HEAD_DIM, 1, HEAD_DIM, BLOCK_D)
    store_rows(dv, dv_tile, keys, n_k, HEAD_DIM, 1, HEAD_DIM, BLOCK_D)


@triton.jit
def add_key_tiles(
    start, stop, dq, q_tile, do_tile, lse_row, delta_row, k, v, head, rows, n_q, n_k, window, scale,
    k_row, k_col, v_row, v_col,
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
        p = tl.exp2(dot(q_tile, tl.trans(k_tile)) * scale - lse_row[:, None])
        if MASK:
            seen = visible(rows[:, None], keys[None, :], n_q, n_k, window, CAUSAL, WINDOWED)
            p = tl.where(seen, p, 0.0)
        ds = p * (dot(do_tile, tl.trans(v_tile)) - delta_row[:, None])  # (block_q, block_k)
        dq = dot(ds.to(k_tile.dtype), k_tile, dq)
    return dq


@triton.jit
def dq_kernel(
    q, k, v, do, lse_2, delta, dq,
    q_batch, q_head, q_row, q_col, k_batch, k_head, k_row, k_col,
    v_batch, v_head, v_row, v_col, do_batch, do_head, do_row, do_col,
    heads, n_q, n_k, window, scale, scale_2,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, DESCRIBED: tl.constexpr,
):
    """One program: one tile of queries of one head, against all keys it may see."""
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
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q_tile = load_rows(q, rows, n_q, q_row, q_col, HEAD_DIM, BLOCK_D, False)
    do_tile = load_rows(do, rows, n_q, do_row, do_col, HEAD_DIM, BLOCK_D, False)
    lse_row = tl.load(lse_2 + index * n_q + rows, mask=rows < n_q, other=float("inf"))
    delta_row = tl.load(delta + index * n_q + rows, mask=rows < n_q, other=0.0)

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
            n_q, n_k, window, scale_2, k_row, k_col, v_row, v_col,
            HEAD_DIM, BLOCK_D, BLOCK_K, CAUSAL, WINDOWED, DESCRIBED, True)
    dq_tile = add_key_tiles(
        whole_start, whole_stop, dq_tile, q_tile, do_tile, lse_row, delta_row, k, v, kv_head, rows,
        n_q, n_k, window, scale_2, k_row, k_col, v_row, v_col,
        HEAD_DIM, BLOCK_D, BLOCK_K, CAUSAL, WINDOWED, DESCRIBED, False)
    dq_tile = add_key_tiles(
        whole_stop, stop, dq_tile, q_tile, do_tile, lse_row, delta_row, k, v, kv_head, rows,
        n_q, n_k, window, scale_2, k_row, k_col, v_row, v_col,
        HEAD_DIM, BLOCK_D, BLOCK_K, CAUSAL, WINDOWED, DESCRIBED, True)
    dq += index * n_q * HEAD_DIM
    store_rows(dq, dq_tile * scale, rows, n_q, HEAD_DIM, 1, HEAD_DIM, BLOCK_D)
# fmt: on


def flash_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    tiles: tuple | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of attention, from what the forward pass saved.

    Args:
        q: (B, H, n_q, d), any strides.
        k: (B, H_kv, n_k, d), likewise; H_kv divides H.
        v: like k.
        o: (B, H, n_q, d), the forward's output.
        lse: (B, H, n_q), float32, natural log, the forward's.
        do: gradient of the loss by o, any strides.
        dlse: gradient by lse, or None.
        causal: as in the forward pass.
        window: as in the forward pass.
        scale: as in the forward pass; default d ** -0.5.
        tiles: (tiles for dK and dV, tiles for dQ); default: this GPU's table.

    Returns:
        dq, dk, dv, contiguous, in the inputs' dtype.
    """
    batch, heads, n_q, d = q.shape
    kv_heads, n_k = k.shape[1:3]
    scale = d**-0.5 if scale is None else scale
    dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
    if 0 in (q.numel(), k.numel()):
        return dq.zero_(), dk.zero_(), dv.zero_()
    o, lse = o.contiguous(), lse.contiguous()
    dlse = None if dlse is None else dlse.contiguous()
    five = tiles is None and window is None and by_hand(q, k, v, do)
    n_out = cdiv(n_q, 128) * 128 if five else n_q
    delta, lse_2 = (lse.new_empty((batch * heads, n_out)) for _ in range(2))
    dq_sum = lse.new_empty((batch * heads, n_out, power_of_2(d))) if five else None
    for_keys, for_queries = tiles or backward_tiles_for(q)
    shape: dict[str, Any] = {"HEAD_DIM": d, "BLOCK_D": power_of_2(d)}
    mask = {"CAUSAL": causal, "WINDOWED": window is not None, "GROUP": heads // kv_heads}
    mask["DESCRIBED"] = by_descriptors(q, k, v, do)
    walked = described if mask["DESCRIBED"] else lambda x, rows: x
    given = (q, k, v, o, lse, do) if dlse is None else (q, k, v, o, lse, do, dlse)
    like = likeness(given, causal, window, for_keys, for_queries, mask["DESCRIBED"], five)
    strides = (*q.stride(), *k.stride(), *v.stride(), *do.stride())
    sizes = (n_q, n_k, window or 0, scale, scale * LOG2_E)
    with on_device_of(q):
        launch(
            *(rows_kernel, (cdiv(n_out, 64), batch * heads), like),
            *(o, do, lse, dlse, delta, lse_2, dq_sum, *do.stride(), heads, n_q, n_out),
            BLOCK_Q=64,
            **shape,
        )
        if five:
            from course_lib.kernels.gluon_backward import gradients

            row = (q, k, v, do, lse_2, delta, dq_sum, dq, dk, dv)
            gradients(*row, causal=causal, scale=scale)
            return dq, dk, dv
        launch(
            *(dk_dv_kernel, (cdiv(n_k, for_keys.block_k), batch * kv_heads), like),
            *(walked(q, for_keys.block_q), k, v, walked(do, for_keys.block_q)),
            *(lse_2, delta, dk, dv, *strides, kv_heads, *sizes),
            **(shape | mask | for_keys.options()),
        )
        launch(
            *(dq_kernel, (cdiv(n_q, for_queries.block_q), batch * heads), like),
            *(q, walked(k, for_queries.block_k), walked(v, for_queries.block_k), do),
            *(lse_2, delta, dq, *strides, heads, *sizes),
            **(shape | mask | for_queries.options()),
        )
    return dq, dk, dv


FEWEST = 2**30  # q.numel() * n_k from which the kernel by hand is faster


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor) -> bool:
    """Return whether to take the kernel with five products: sm_90, half types, head_dim 64, 96 or
    128, rows in a line, enough to do, and PyTorch not asked for the same bits in every run."""
    return (
        q.shape[-1] in (64, 96, 128)
        and q.numel() * k.shape[2] >= FEWEST
        and not torch.are_deterministic_algorithms_enabled()
        and in_line_on_hopper(q, k, v, do)
        and gluon_works()
    )


def by_descriptors(*tensors: torch.Tensor) -> bool:
    """Return whether descriptors fit and were measured to be faster: sm_90, half types, large d."""
    return tensors[0].shape[-1] in (128, 256) and in_line_on_hopper(*tensors)
