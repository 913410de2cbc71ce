"""Rung 8: what stock Triton does not do on Hopper, written by hand in Gluon.

FlashAttention-3 (Shah et al. 2024, arXiv:2407.08608), its two ideas:

* *Warp specialisation* (section 3.1): one warp does nothing but start the copies of K and V into
  shared memory; two groups of four warps compute, 64 query rows each. Barriers in shared memory
  say "this tile is full" and "this tile may be overwritten".
* *Overlap inside a group* (section 3.2): the scores of the next key tile and P V of the last one
  run on the tensor cores while the exponentials of this tile run elsewhere.

Needs sm_90 and Triton 3.6 or later (Gluon is Triton's lower level: same language, but layouts,
shared memory, copies and barriers are the programmer's). Keys are walked from the last tile to the
first, so that the masked tiles come first and the long loop has no mask.
"""

from __future__ import annotations

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

LOG2_E = 1.4426950408889634
LN_2 = gl.constexpr(0.6931471805599453)
GROUP_ROWS = gl.constexpr(64)  # query rows of one group of four warps


@gluon.jit
def tile_of(t, tiles, SNAKE: gl.constexpr):
    """Return (head, query tile) of work item t: heads one after the other, so that L2 holds K, V."""
    head = t // tiles
    tile = t % tiles
    if SNAKE:  # causal: the longest tiles of each head first
        tile = tiles - 1 - tile
    return head, tile


@gluon.jit
def key_tiles(tile, n_q, n_k, BLOCK_Q: gl.constexpr, BLOCK_K: gl.constexpr, CAUSAL: gl.constexpr):
    """Return how many key tiles this query tile visits: at least one, even if all is hidden."""
    end = n_k
    if CAUSAL:
        end = gl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)
    return gl.maximum(gl.cdiv(end, BLOCK_K), 1)


# fmt: off
@gluon.jit
def copy_tiles(
    q_desc, k_desc, v_desc, q_smem, k_smem, v_smem,
    q_full, q_empty, k_full, k_empty, v_full, v_empty,
    n_q, n_k, tiles, items,
    GROUP: gl.constexpr, BLOCK_Q: gl.constexpr, BLOCK_K: gl.constexpr, HEAD_DIM: gl.constexpr,
    STAGES: gl.constexpr, CAUSAL: gl.constexpr,
):
    """The producer: one warp that starts every copy, as soon as its target is free."""
    i = 0  # key tiles copied so far, over all work items
    turn = 0
    for t in range(gl.program_id(0), items, gl.num_programs(0)):
        head, tile = tile_of(t, tiles, CAUSAL)
        mbarrier.wait(q_empty, (turn & 1) ^ 1)
        mbarrier.expect(q_full, BLOCK_Q * HEAD_DIM * 2)
        for g in gl.static_range(BLOCK_Q // GROUP_ROWS):
            tma.async_copy_global_to_shared(
                q_desc, [head, tile * BLOCK_Q + g * GROUP_ROWS, 0], q_full, q_smem.index(g))
        turn += 1
        n = key_tiles(tile, n_q, n_k, BLOCK_Q, BLOCK_K, CAUSAL)
        for j in range(n):
            slot = i % STAGES
            phase = ((i // STAGES) & 1) ^ 1  # a barrier nobody has completed passes phase 1
            start = (n - 1 - j) * BLOCK_K
            mbarrier.wait(k_empty.index(slot), phase)
            mbarrier.expect(k_full.index(slot), BLOCK_K * HEAD_DIM * 2)
            tma.async_copy_global_to_shared(
                k_desc, [head // GROUP, start, 0], k_full.index(slot), k_smem.index(slot))
            mbarrier.wait(v_empty.index(slot), phase)
            mbarrier.expect(v_full.index(slot), BLOCK_K * HEAD_DIM * 2)
            tma.async_copy_global_to_shared(
                v_desc, [head // GROUP, start, 0], v_full.index(slot), v_smem.index(slot))
            i += 1


@gluon.jit
def softmax_step(s, m, l_sum, scale, first_row, start, n_q, n_k, p_layout: gl.constexpr,
                 MASK: gl.constexpr, CAUSAL: gl.constexpr, dtype: gl.constexpr):
    """Turn scores into p under the new maximum; return (p, m, l_sum, alpha)."""
    if MASK:
        s_layout: gl.constexpr = s.type.layout
        rows = first_row + gl.arange(0, s.shape[0], gl.SliceLayout(1, s_layout))
        keys = start + gl.arange(0, s.shape[1], gl.SliceLayout(0, s_layout))
        last = rows * 0 + n_k - 1
        if CAUSAL:
            last = gl.minimum(last, rows + n_k - n_q)
        s = gl.where(keys[None, :] <= last[:, None], s, float("-inf"))
    m_new = gl.maximum(m, gl.max(s, 1) * scale)
    m_safe = m_new
    if MASK:
        m_safe = gl.where(m_new == float("-inf"), 0.0, m_new)
    alpha = gl.exp2(m - m_safe)
    p = gl.exp2(s * scale - m_safe[:, None])
    l_sum = l_sum * alpha + gl.sum(p, 1)
    return gl.convert_layout(p.to(dtype), p_layout), m_new, l_sum, alpha


@gluon.jit
def next_tile(
    q_tile, k_smem, v_smem, k_full, k_empty, v_full, v_empty, i,
    m, l_sum, acc, p, scale, first_row, start, n_q, n_k,
    BLOCK_K: gl.constexpr, STAGES: gl.constexpr, MASK: gl.constexpr, CAUSAL: gl.constexpr,
):
    """Issue S = Q K_i and acc += P V_(i-1) together; exponentiate S while the second runs."""
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_K, 16])
    slot = i % STAGES
    mbarrier.wait(k_full.index(slot), (i // STAGES) & 1)
    k_tile = k_smem.index(slot)
    zero = gl.zeros((GROUP_ROWS, BLOCK_K), gl.float32, s_layout)
    s = warpgroup_mma(q_tile, k_tile.permute((1, 0)), zero, use_acc=False, is_async=True)
    before = (i - 1) % STAGES
    acc = warpgroup_mma(p, v_smem.index(before), acc, is_async=True)
    s = warpgroup_mma_wait(num_outstanding=1, deps=(s,))
    mbarrier.arrive(k_empty.index(slot))
    p_layout: gl.constexpr = p.type.layout
    p_new, m, l_sum, alpha = softmax_step(
        s, m, l_sum, scale, first_row, start, n_q, n_k, p_layout, MASK, CAUSAL, p.dtype)
    # waiting for V_i here, not where it is used, also keeps the assembler from moving the next
    # line up: it starts a new basic block, and the exponentials stay in this one
    mbarrier.wait(v_full.index(slot), (i // STAGES) & 1)
    acc, p, p_new = warpgroup_mma_wait(num_outstanding=0, deps=(acc, p, p_new))
    mbarrier.arrive(v_empty.index(before))
    alpha = gl.convert_layout(alpha, gl.SliceLayout(1, acc.type.layout))
    return m, l_sum, acc * gl.expand_dims(alpha, 1), p_new


@gluon.jit
def compute(
    group: gl.constexpr, o_desc, lse, q_smem, k_smem, v_smem,
    q_full, q_empty, k_full, k_empty, v_full, v_empty,
    n_q, n_k, tiles, items, scale,
    BLOCK_Q: gl.constexpr, BLOCK_K: gl.constexpr, HEAD_DIM: gl.constexpr,
    STAGES: gl.constexpr, CAUSAL: gl.constexpr, q_layout: gl.constexpr,
):
    """A consumer: four warps, 64 query rows, all their keys."""
    dtype: gl.constexpr = q_smem.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_K, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    row_layout: gl.constexpr = gl.SliceLayout(1, s_layout)
    q_own = q_smem.index(group)
    q_tile = q_own._reinterpret(dtype, [GROUP_ROWS, HEAD_DIM], q_layout)
    i = 0
    turn = 0
    for t in range(gl.program_id(0), items, gl.num_programs(0)):
        head, tile = tile_of(t, tiles, CAUSAL)
        first_row = tile * BLOCK_Q + group * GROUP_ROWS
        n = key_tiles(tile, n_q, n_k, BLOCK_Q, BLOCK_K, CAUSAL)
        # tiles from here on hide a key from some row of this group
        whole = n_k
        if CAUSAL:
            whole = gl.minimum(n_k, gl.maximum(first_row + n_k - n_q + 1, 0))
        whole = whole // BLOCK_K
        m = gl.full((GROUP_ROWS,), float("-inf"), gl.float32, row_layout)
        l_sum = gl.zeros((GROUP_ROWS,), gl.float32, row_layout)
        acc = gl.zeros((GROUP_ROWS, HEAD_DIM), gl.float32, o_layout)

        mbarrier.wait(q_full, turn & 1)
        slot = i % STAGES
        mbarrier.wait(k_full.index(slot), (i // STAGES) & 1)
        zero = gl.zeros((GROUP_ROWS, BLOCK_K), gl.float32, s_layout)
        s = warpgroup_mma(q_tile, k_smem.index(slot).permute((1, 0)), zero,
                          use_acc=False, is_async=True)
        s = warpgroup_mma_wait(num_outstanding=0, deps=(s,))
        mbarrier.arrive(k_empty.index(slot))
        p, m, l_sum, alpha = softmax_step(
            s, m, l_sum, scale, first_row, (n - 1) * BLOCK_K, n_q, n_k, p_layout,
            True, CAUSAL, dtype)
        mbarrier.wait(v_full.index(slot), (i // STAGES) & 1)
        i += 1
        for j in range(n - 2, gl.minimum(whole, n - 1) - 1, -1):
            m, l_sum, acc, p = next_tile(
                q_tile, k_smem, v_smem, k_full, k_empty, v_full, v_empty, i,
                m, l_sum, acc, p, scale, first_row, j * BLOCK_K, n_q, n_k, BLOCK_K,
                STAGES, True, CAUSAL)
            i += 1
        for j in range(gl.minimum(whole, n - 1) - 1, -1, -1):
            m, l_sum, acc, p = next_tile(
                q_tile, k_smem, v_smem, k_full, k_empty, v_full, v_empty, i,
                m, l_sum, acc, p, scale, first_row, j * BLOCK_K, n_q, n_k, BLOCK_K,
                STAGES, False, CAUSAL)
            i += 1
        before = (i - 1) % STAGES
        acc = warpgroup_mma(p, v_smem.index(before), acc, is_async=True)
        l_safe = gl.where(l_sum == 0.0, 1.0, l_sum)
        rows = first_row + gl.arange(0, GROUP_ROWS, row_layout)
        gl.store(lse + head.to(gl.int64) * n_q + rows, (m + gl.log2(l_safe)) * LN_2, mask=rows < n_q)
        acc, p = warpgroup_mma_wait(num_outstanding=0, deps=(acc, p))
        mbarrier.arrive(v_empty.index(before))
        inverse = gl.convert_layout(1.0 / l_safe, gl.SliceLayout(1, o_layout))
        q_tile.store((acc * gl.expand_dims(inverse, 1)).to(dtype))  # Q is done with: its room for O
        fence_async_shared()
        tma.async_copy_shared_to_global(o_desc, [head, first_row, 0], q_own)
        tma.store_wait(0)
        mbarrier.arrive(q_empty)
        turn += 1


@gluon.jit
def specialised_kernel(
    q_desc, k_desc, v_desc, o_desc, lse, n_q, n_k, tiles, items, scale,
    GROUP: gl.constexpr, BLOCK_Q: gl.constexpr, BLOCK_K: gl.constexpr, HEAD_DIM: gl.constexpr,
    STAGES: gl.constexpr, CAUSAL: gl.constexpr, q_layout: gl.constexpr, kv_layout: gl.constexpr,
):
    """Set up shared memory and barriers, then part: two consumers and a producer."""
    dtype: gl.constexpr = q_desc.dtype
    GROUPS: gl.constexpr = BLOCK_Q // GROUP_ROWS
    q_smem = gl.allocate_shared_memory(dtype, [GROUPS, 1, GROUP_ROWS, HEAD_DIM], q_desc.layout)
    k_smem3 = gl.allocate_shared_memory(dtype, [STAGES, 1, BLOCK_K, HEAD_DIM], k_desc.layout)
    v_smem3 = gl.allocate_shared_memory(dtype, [STAGES, 1, BLOCK_K, HEAD_DIM], v_desc.layout)
    k_smem = k_smem3._reinterpret(dtype, [STAGES, BLOCK_K, HEAD_DIM], kv_layout)
    v_smem = v_smem3._reinterpret(dtype, [STAGES, BLOCK_K, HEAD_DIM], kv_layout)
    bar: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [1], bar)
    q_empty = gl.allocate_shared_memory(gl.int64, [1], bar)
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bar)
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bar)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bar)
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bar)
    mbarrier.init(q_full, count=1)
    mbarrier.init(q_empty, count=GROUPS)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(k_empty.index(stage), count=GROUPS)
        mbarrier.init(v_full.index(stage), count=1)
        mbarrier.init(v_empty.index(stage), count=GROUPS)
    fence_async_shared()
    gl.warp_specialize(
        [
            (compute, (gl.constexpr(0), o_desc, lse, q_smem, k_smem, v_smem,
                       q_full, q_empty, k_full, k_empty, v_full, v_empty,
                       n_q, n_k, tiles, items, scale,
                       BLOCK_Q, BLOCK_K, HEAD_DIM, STAGES, CAUSAL, q_layout)),
            (compute, (gl.constexpr(1), o_desc, lse, q_smem, k_smem, v_smem,
                       q_full, q_empty, k_full, k_empty, v_full, v_empty,
                       n_q, n_k, tiles, items, scale,
                       BLOCK_Q, BLOCK_K, HEAD_DIM, STAGES, CAUSAL, q_layout)),
            (copy_tiles, (q_desc, k_desc, v_desc, q_smem, k_smem3, v_smem3,
                          q_full, q_empty, k_full, k_empty, v_full, v_empty,
                          n_q, n_k, tiles, items,
                          GROUP, BLOCK_Q, BLOCK_K, HEAD_DIM, STAGES, CAUSAL)),
        ],
        worker_num_warps=[4, 1],
        worker_num_regs=[240, 24],
    )
# fmt: on


def specialised(q, k, v, *, causal=False, block_k=128, stages=2, persistent=None):
    """Rung 8: warp-specialised and overlapped, by hand. float16 or bfloat16, head_dim 64 or 128.

    ``persistent`` (default: not causal): one program per SM walks over the work items.
    """
    batch, heads, n_q, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    dtype = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}[q.dtype]

    def described(x: torch.Tensor, rows: int) -> TensorDescriptor:
        layout = gl.NVMMASharedLayout.get_default_for([1, rows, d], dtype)
        x = x.flatten(0, 1)
        return TensorDescriptor(x, list(x.shape), list(x.stride()), [1, rows, d], layout)

    block_q = 128
    tiles = triton.cdiv(n_q, block_q)
    items = tiles * batch * heads
    persistent = not causal if persistent is None else persistent
    sms = torch.cuda.get_device_properties(q.device).multi_processor_count
    specialised_kernel[(min(items, sms) if persistent else items,)](
        *(described(q, 64), described(k, block_k), described(v, block_k), described(o, 64)),
        *(lse, n_q, k.shape[2], tiles, items, d**-0.5 * LOG2_E),
        GROUP=heads // k.shape[1],
        BLOCK_Q=block_q,
        BLOCK_K=block_k,
        HEAD_DIM=d,
        STAGES=stages,
        CAUSAL=causal,
        q_layout=gl.NVMMASharedLayout.get_default_for([64, d], dtype),
        kv_layout=gl.NVMMASharedLayout.get_default_for([block_k, d], dtype),
        num_warps=4,
    )
    return o, lse
