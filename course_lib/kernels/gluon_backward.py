"""The backward pass with five products, by hand in Gluon: dQ, dK and dV from one kernel.

`backward_kernels` computes every score twice, once for dK and dV and once for dQ. Here a program
owns 128 keys, as two groups of four warps with 64 keys each, walks over the queries once, and what
a tile of them learns about dQ is added to a float32 buffer (Dao 2023, arXiv:2307.08691, section
3.2), by the copy engine, out of shared memory (as FlashAttention-3 does, Shah et al. 2024,
arXiv:2407.08608). Whoever adds first differs from run to run, and so does the last bit of dQ; where
PyTorch is asked for deterministic algorithms, its three kernels are used.

Everything stands transposed, (keys, queries), so that P and dS go from registers into a product:

    S = K Q^T    dP = V dO^T    dV += P dO    dK += dS Q    dQ += dS^T K

dQ sums over keys, so over both groups: each writes its half of dS into shared memory, and each
makes half of this tile of dQ from all of it: half of the columns, or, at head_dim 64, where a tile
of queries has 128 rows in two PIECES, half of the rows. Who waits for whom (one tile of queries):

    producer     wait Q empty --> copy Q_i, lse_i         wait dO empty --> copy dO_i, delta_i
                                       | Q is full                              | dO is full
    each group   wait Q full --> start S; wait dQ empty --> dQ_(i-1) --> shared memory;
                 wait dO full --> start dP; P --> start dV; dS --> shared memory, arrive at "dS and
                 dQ are full"; start dK; wait dS full --> start dQ_i; wait for dV, dK: arrive at
                 "dO, Q is empty"; for dQ_i
    its adder    wait dQ full --> add it up in memory; once read: arrive at "dQ is empty"

Needs sm_90 and Triton 3.6 to 3.9, as `gluon_forward` does, whose words it shares.

Longer than 400 lines because who waits for whom in one kernel is read in one place.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.language.nvidia.hopper.tma import store_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from course_lib.kernels.gluon_forward import (
    accumulator,
    async_load,
    async_store,
    barriers,
    described,
    place,
    seen_as,
    swizzled,
)
from course_lib.kernels.launch import cdiv, launch, likeness, with_base
from course_lib.kernels.scores import LOG2_E

ROWS = gl.constexpr(64)  # queries of a tile, and keys of a group
# from Triton 3.7 on; 3.6 has the second name
threads_meet = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier


@builtin
def async_add(desc, at, tile, _semantic=None):
    """Add a tile in shared memory to what lies at ``at`` in memory, by the copy engine. (From
    Triton 3.9 on Gluon has a name for this; the operation is older.)"""
    at = _semantic._convert_to_ir_values(at, require_i64=False)
    add = ir.DESCRIPTOR_REDUCE_KIND.ADD
    _semantic.builder.create_async_tma_reduce(add, desc.handle, at, tile.handle)


# fmt: off
@gluon.jit
def copy_tiles(descs, smem, bars, start, stop, first_key, kv_head, kv_heads,
               GROUP: gl.constexpr, STAGES: gl.constexpr, PIECES: gl.constexpr):
    """The producer: K and V once, then Q, lse, dO and delta of every tile of queries."""
    q_desc, do_desc, k_desc, v_desc, lse_desc, delta_desc = descs
    q_smem, do_smem, k_smem, v_smem, lse_smem, delta_smem = smem
    kv_full, q_full, q_empty, do_full, do_empty, _, _, _ = bars
    mbarrier.expect(kv_full, 4 * k_desc.block_type.nbytes)
    for g in gl.static_range(2):
        keys_at = place(kv_head, kv_heads, first_key + g * ROWS)
        async_load(k_desc, keys_at, kv_full, k_smem.index(g))
        async_load(v_desc, keys_at, kv_full, v_smem.index(g))
    tiles = stop - start
    for t in range(GROUP * tiles):
        head = kv_head * GROUP + t // tiles
        row = (start + t % tiles) * PIECES * ROWS
        slot = t % STAGES
        free = ((t // STAGES) & 1) ^ 1  # a barrier that nobody has completed passes phase 1
        n_bytes: gl.constexpr = q_desc.block_type.nbytes + lse_desc.block_type.nbytes
        mbarrier.wait(q_empty.index(slot), free)
        mbarrier.expect(q_full.index(slot), PIECES * n_bytes)
        for i in gl.static_range(PIECES):
            at = slot * PIECES + i
            first = row + i * ROWS
            rows_at = place(head, kv_heads * GROUP, first)
            async_load(q_desc, rows_at, q_full.index(slot), q_smem.index(at))
            async_load(lse_desc, [head, first], q_full.index(slot), lse_smem.index(at))
        mbarrier.wait(do_empty.index(slot), free)
        mbarrier.expect(do_full.index(slot), PIECES * n_bytes)
        for i in gl.static_range(PIECES):
            at = slot * PIECES + i
            first = row + i * ROWS
            rows_at = place(head, kv_heads * GROUP, first)
            async_load(do_desc, rows_at, do_full.index(slot), do_smem.index(at))
            async_load(delta_desc, [head, first], do_full.index(slot), delta_smem.index(at))


@gluon.jit
def keep(room, dq):
    """Store a group's half of a tile of dQ, (64, 64), as (128, 32) in shared memory.

    No bank is met twice if 32 threads store 512 bytes in one piece. So the buffer has the order in
    which threads hold numbers (`dq_in_rows` reads it): for each 8 columns, 4 of every thread."""
    held = gl.reshape(dq, (4, 2, 8, 8, 4, 2))  # warp, 8 rows, row, 8 columns, pair, column
    room.store(gl.reshape(gl.permute(held, (3, 0, 2, 4, 1, 5)), (128, 32)))


@gluon.jit
def add_tiles(group: gl.constexpr, dq_desc, dq_smem, bars, start, stop, kv_head, lines_in_head,
              lines: gl.constexpr, GROUP: gl.constexpr):
    """An adder: its group's half of every tile of dQ, (128, 32), to what other programs say.

    The buffer is lines of 32 numbers, ``lines`` of them a tile of queries."""
    dq_full, dq_empty = bars[6], bars[7]
    tiles = stop - start
    at = 0  # what comes first are zeros
    for t in range(GROUP * tiles + 1):
        mbarrier.wait(dq_full.index(group), t & 1)
        async_add(dq_desc, [at + group * 128, 0], dq_smem.index(group))
        store_wait(0)
        mbarrier.arrive(dq_empty.index(group))
        at = (kv_head * GROUP + t // tiles) * lines_in_head + (start + t % tiles) * lines


@gluon.jit
def weights(s, lse, scale, first_row, first_key, n_q, n_k, MASK: gl.constexpr,
            CAUSAL: gl.constexpr):
    """Return P, (keys, queries), of scores and the lse (1, queries) of their rows."""
    p = gl.exp2(s * scale - lse)
    if MASK:
        layout: gl.constexpr = s.type.layout
        keys = first_key + gl.arange(0, ROWS, gl.SliceLayout(1, layout))
        rows = first_row + gl.arange(0, ROWS, gl.SliceLayout(0, layout))
        last = rows * 0 + n_k - 1
        if CAUSAL:
            last = gl.minimum(last, rows + n_k - n_q)
        p = gl.where(keys[:, None] <= last[None, :], p, 0.0)
    return p


@gluon.jit
def add_tile(
    t, group: gl.constexpr, dk, dv, dq, v_tile, smem, bars, first_row, first_key, n_q, n_k, scale,
    STAGES: gl.constexpr, PIECES: gl.constexpr, MASK: gl.constexpr, CAUSAL: gl.constexpr,
):
    """What one tile of queries says about this group's dK and dV, and about its half of dQ."""
    q_smem, do_smem, k_smem, _, lse_smem, delta_smem, ds_smem, dq_smem = smem
    _, q_full, q_empty, do_full, do_empty, ds_full, dq_full, dq_empty = bars
    WIDTH: gl.constexpr = q_smem.shape[2]
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    wide: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, WIDTH, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, wide, 2)
    slot = t % STAGES
    phase = (t // STAGES) & 1
    for i in gl.static_range(PIECES):
        at = slot * PIECES + i
        q_tile = q_smem.index(at)
        do_tile = do_smem.index(at)
        if i == 0:
            mbarrier.wait(q_full.index(slot), phase)
        s = warpgroup_mma(k_smem.index(group), q_tile.permute((1, 0)), accumulator(64),
                          use_acc=False, is_async=True)
        if i == 0:
            mbarrier.wait(dq_empty.index(group), (t & 1) ^ 1)
            keep(dq_smem.index(group), dq)  # of the tile before
            mbarrier.wait(do_full.index(slot), phase)
        dp = warpgroup_mma(v_tile, do_tile.permute((1, 0)), accumulator(64),
                           use_acc=False, is_async=True)
        if i == 0:
            s = warpgroup_mma_wait(num_outstanding=1, deps=(s,))
        else:  # dV and dK of the piece before end here too: keep what they read until then
            read = (s, p_half, ds_half)  # type: ignore[has-type]  # noqa: F821
            s, _, _ = warpgroup_mma_wait(num_outstanding=1, deps=read)
        lse = lse_smem.index(at).load(s_layout)
        p = weights(s, lse, scale, first_row + i * ROWS, first_key, n_q, n_k, MASK, CAUSAL)
        p_half = gl.convert_layout(p.to(q_tile.dtype), operand)
        dp = warpgroup_mma_wait(num_outstanding=0, deps=(dp,))
        dv = warpgroup_mma(p_half, do_tile, dv, is_async=True)
        ds = (p * (dp - delta_smem.index(at).load(s_layout))).to(q_tile.dtype)
        # no barrier says "dS is empty": who has come to tile t has seen t - 1 full, and whoever
        # filled that had done with t - 2
        half_of_ds = t % 2
        ds_smem.index((half_of_ds * PIECES + i) * 2 + group).store(ds)
        if i == PIECES - 1:
            fence_async_shared()
            threads_meet()
            mbarrier.arrive(ds_full.index(half_of_ds))
            mbarrier.arrive(dq_full.index(group))
        ds_half = gl.convert_layout(ds, operand)
        dk = warpgroup_mma(ds_half, q_tile, dk, is_async=True)
    mbarrier.wait(ds_full.index(half_of_ds), (t // 2) & 1)
    dq = accumulator(64)
    for half in gl.static_range(2):  # of the keys
        if PIECES == 1:  # half of the columns is this group's
            ds_half_keys = ds_smem.index(half_of_ds * 2 + half)
            k_tile = k_smem.index(half).slice(group * 64, 64, 1)
        else:  # half of the rows
            ds_half_keys = ds_smem.index((half_of_ds * PIECES + group) * 2 + half)
            k_tile = k_smem.index(half)
        dq = warpgroup_mma(ds_half_keys.permute((1, 0)), k_tile, dq, use_acc=half == 1,
                           is_async=True)
    dv, _ = warpgroup_mma_wait(num_outstanding=3, deps=(dv, p_half))
    mbarrier.arrive(do_empty.index(slot))
    dk, _ = warpgroup_mma_wait(num_outstanding=2, deps=(dk, ds_half))
    mbarrier.arrive(q_empty.index(slot))
    dq = warpgroup_mma_wait(num_outstanding=0, deps=(dq,))
    return dk, dv, dq


@gluon.jit
def compute(
    group: gl.constexpr, dk_desc, dv_desc, smem, bars, start, stop, first_key, kv_head, kv_heads,
    n_q, n_k, scale, scale_2,
    GROUP: gl.constexpr, STAGES: gl.constexpr, PIECES: gl.constexpr, CAUSAL: gl.constexpr,
):
    """A consumer: four warps, 64 keys, all queries that may see them."""
    v_smem, dq_smem = smem[3], smem[7]
    kv_full, dq_full, dq_empty = bars[0], bars[6], bars[7]
    WIDTH: gl.constexpr = v_smem.shape[2]
    first_key += group * ROWS
    dk = accumulator(WIDTH)
    dv = accumulator(WIDTH)
    mbarrier.wait(kv_full, 0)
    v_tile = v_smem.index(group)
    if WIDTH == 64:  # there are registers for it, and shared memory has enough to do
        v_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
        v_tile = v_tile.load(gl.DotOperandLayout(0, v_layout, 2))
    masked = start  # tiles before this one hide a key
    if CAUSAL:
        masked = gl.cdiv(gl.maximum(first_key + ROWS - 1 - n_k + n_q, 0), PIECES * ROWS)
        masked = gl.maximum(gl.minimum(masked, stop), start)
    if first_key + ROWS > n_k:
        masked = stop
    tiles = stop - start
    dq = accumulator(64)  # nothing yet: zeros are added to the first tile of all
    for member in range(GROUP):
        for i in range(start, masked):
            dk, dv, dq = add_tile(
                member * tiles + i - start, group, dk, dv, dq, v_tile, smem, bars,
                i * PIECES * ROWS, first_key, n_q, n_k, scale_2, STAGES, PIECES, True, CAUSAL)
        for i in range(masked, stop):
            dk, dv, dq = add_tile(
                member * tiles + i - start, group, dk, dv, dq, v_tile, smem, bars,
                i * PIECES * ROWS, first_key, n_q, n_k, scale_2, STAGES, PIECES, False, CAUSAL)
    mbarrier.wait(dq_empty.index(group), ((GROUP * tiles) & 1) ^ 1)
    keep(dq_smem.index(group), dq)
    fence_async_shared()
    threads_meet()
    mbarrier.arrive(dq_full.index(group))
    as_copied: gl.constexpr = dv_desc.layout
    room = v_smem.index(group)  # V is done with, and no other group reads this half
    room.store(dv.to(v_smem.dtype))
    fence_async_shared()
    threads_meet()
    to = place(kv_head, kv_heads, first_key)
    async_store(dv_desc, to, seen_as(room, [1, 1, ROWS, WIDTH], as_copied))
    store_wait(0)
    threads_meet()
    room.store((dk * scale).to(v_smem.dtype))
    fence_async_shared()
    threads_meet()
    async_store(dk_desc, to, seen_as(room, [1, 1, ROWS, WIDTH], as_copied))
    store_wait(0)


@gluon.jit
def gradients_kernel(
    q_desc, do_desc, k_desc, v_desc, lse_desc, delta_desc, dk_desc, dv_desc, dq_desc,
    kv_heads, n_q, n_k, rows_in_head, scale, scale_2,
    GROUP: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr, layout: gl.constexpr,
    ds_layout: gl.constexpr,
):
    """Set up shared memory and barriers, then part: two consumers, one producer, two adders."""
    dtype: gl.constexpr = q_desc.dtype
    WIDTH: gl.constexpr = k_desc.block_shape[3]
    PIECES: gl.constexpr = 128 // WIDTH  # a tile of queries is so many times 64 rows
    first_key = gl.program_id(0) * 2 * ROWS
    kv_head = gl.program_id(1)
    start = 0
    if CAUSAL:  # query i sees key j if i >= j - n_k + n_q
        start = gl.maximum(first_key - n_k + n_q, 0) // (PIECES * ROWS)
    stop = gl.cdiv(n_q, PIECES * ROWS)
    start = gl.minimum(start, stop)
    q_smem = gl.allocate_shared_memory(dtype, [STAGES * PIECES, 1, 1, ROWS, WIDTH], q_desc.layout)
    do_smem = gl.allocate_shared_memory(dtype, [STAGES * PIECES, 1, 1, ROWS, WIDTH], q_desc.layout)
    k_smem = gl.allocate_shared_memory(dtype, [2, 1, 1, ROWS, WIDTH], k_desc.layout)
    v_smem = gl.allocate_shared_memory(dtype, [2, 1, 1, ROWS, WIDTH], k_desc.layout)
    lse_smem = gl.allocate_shared_memory(gl.float32, [STAGES * PIECES, 1, ROWS], lse_desc.layout)
    delta_smem = gl.allocate_shared_memory(gl.float32, [STAGES * PIECES, 1, ROWS], lse_desc.layout)
    # (turn, piece, group)
    ds_smem = gl.allocate_shared_memory(dtype, [4 * PIECES, ROWS, ROWS], ds_layout)
    dq_smem = gl.allocate_shared_memory(gl.float32, [2, 128, 32], dq_desc.layout)
    bars = (
        barriers(1, 1).index(0),  # K and V are full
        barriers(STAGES, 1), barriers(STAGES, 2),  # Q is full, is empty
        barriers(STAGES, 1), barriers(STAGES, 2),  # dO is full, is empty
        barriers(2, 2),  # dS is full
        barriers(2, 1), barriers(2, 1),  # a group's dQ is full, is empty
    )
    fence_async_shared()
    copied = (q_smem, do_smem, k_smem, v_smem, lse_smem, delta_smem)
    smem = (
        seen_as(q_smem, [STAGES * PIECES, ROWS, WIDTH], layout),
        seen_as(do_smem, [STAGES * PIECES, ROWS, WIDTH], layout),
        seen_as(k_smem, [2, ROWS, WIDTH], layout),
        seen_as(v_smem, [2, ROWS, WIDTH], layout),
        lse_smem, delta_smem, ds_smem, dq_smem,
    )
    lines: gl.constexpr = PIECES * ROWS * WIDTH // 32
    lines_in_head = rows_in_head * WIDTH // 32
    zero: gl.constexpr = 0
    one: gl.constexpr = 1
    gl.warp_specialize(
        [
            (compute, (zero, dk_desc, dv_desc, smem, bars, start, stop, first_key, kv_head,
                       kv_heads, n_q, n_k, scale, scale_2, GROUP, STAGES, PIECES, CAUSAL)),
            (compute, (one, dk_desc, dv_desc, smem, bars, start, stop, first_key, kv_head,
                       kv_heads, n_q, n_k, scale, scale_2, GROUP, STAGES, PIECES, CAUSAL)),
            (copy_tiles, ((q_desc, do_desc, k_desc, v_desc, lse_desc, delta_desc), copied, bars,
                          start, stop, first_key, kv_head, kv_heads, GROUP, STAGES, PIECES)),
            (add_tiles, (zero, dq_desc, dq_smem, bars, start, stop, kv_head, lines_in_head,
                         lines, GROUP)),
            (add_tiles, (one, dq_desc, dq_smem, bars, start, stop, kv_head, lines_in_head,
                         lines, GROUP)),
        ],
        worker_num_warps=[4, 1, 1, 1],
        worker_num_regs=[240, 24, 24, 24],
    )


@triton.jit
def dq_in_rows(dq_sum, dq, scale, n_q, rows_in_head, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr):
    """One program: 64 rows and 64 columns of dQ, out of `keep`'s order, scaled."""
    tile = tl.program_id(0)
    part = tl.program_id(1)
    head = tl.program_id(2).to(tl.int64)
    start = (head * rows_in_head + tile * 64) * WIDTH + part * 64 * 64
    held = tl.load(dq_sum + start + tl.arange(0, 64 * 64))
    held = tl.reshape(held, (8, 4, 8, 4, 2, 2))
    held = tl.reshape(tl.permute(held, (1, 4, 2, 0, 3, 5)), (64, 64))
    rows = tile * 64 + tl.arange(0, 64)
    cols = part * 64 + tl.arange(0, 64)
    to = dq + head * n_q * HEAD_DIM + rows[:, None] * HEAD_DIM + cols[None, :]
    inside = (rows[:, None] < n_q) & (cols[None, :] < HEAD_DIM)
    tl.store(to, (held * scale).to(dq.dtype.element_ty), mask=inside)
# fmt: on


@functools.lru_cache(maxsize=4096)
def _rows_template(shape: torch.Size) -> TensorDescriptor:
    layout = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
    return TensorDescriptor(torch.empty(0), list(shape), [shape[1], 1], [1, 64], layout)


@functools.lru_cache(maxsize=4096)
def _sum_template(numel: int) -> TensorDescriptor:
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)
    return TensorDescriptor(torch.empty(0), [numel // 32, 32], [32, 1], [128, 32], layout)


def gradients(
    q, k, v, do, lse_2, delta, dq_sum, dq, dk, dv, *, causal, scale, stages=None, like=None
):
    """Write dQ, dK and dV, on sm_90.

    Args:
        q: (B, H, n_q, d), strides as `fetchable` has them, half types, d 64, 96 or 128.
        k: (B, H_kv, n_k, d), likewise.
        v: like k.
        do: like q.
        lse_2: (B * H, rows), float32, base 2; rows is n_q rounded up to 128. inf for a row without
            a key and past n_q.
        delta: likewise; 0 past n_q.
        dq_sum: (B * H, rows, 64 or, for d above it, 128), float32, zeros; to add up in.
        dq: (B, H, n_q, d), contiguous; overwritten.
        dk: (B, H_kv, n_k, d), contiguous; overwritten.
        dv: like dk.
        causal: aligned at the end.
        scale: of the scores.
        stages: tiles of Q and dO in flight; default what fits, 2 at d = 64, 3 above it.
        like: a `likeness` that decides all of these but the scale; default one that does.
    """
    batch, heads, n_q, d = q.shape
    kv_heads, n_k = k.shape[1:3]
    rows, width = dq_sum.shape[1:]
    stages = stages or width // 64 + 1
    like = like or likeness((q, k, v, do), causal, stages)
    launch(
        *(gradients_kernel, (cdiv(n_k, 128), batch * kv_heads), like),
        *(described(q, 64), described(do, 64), described(k, 64), described(v, 64)),
        *(with_base(_rows_template(x.shape), x) for x in (lse_2, delta)),
        *(described(dk, 64), described(dv, 64)),
        with_base(_sum_template(dq_sum.numel()), dq_sum),
        *(kv_heads, n_q, n_k, rows, scale, scale * LOG2_E),
        GROUP=heads // kv_heads,
        STAGES=stages,
        CAUSAL=causal,
        layout=swizzled((64, width), q.dtype),
        ds_layout=swizzled((64, 64), q.dtype),
        num_warps=4,
    )
    launch(
        *(dq_in_rows, (rows // 64, width // 64, batch * heads), like),
        *(dq_sum, dq, scale, n_q, rows),
        HEAD_DIM=d,
        WIDTH=width,
    )
