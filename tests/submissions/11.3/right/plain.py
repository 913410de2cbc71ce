# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def load_tile(base, rows, n_rows, HEAD_DIM: tl.constexpr):
    cols = tl.arange(0, HEAD_DIM)
    ptrs = base + rows[:, None] * HEAD_DIM + cols[None, :]
    return tl.load(ptrs, mask=rows[:, None] < n_rows, other=0.0)


@triton.jit
def load_rows(base, at, there, HEAD_DIM: tl.constexpr):
    cols = tl.arange(0, HEAD_DIM)
    return tl.load(base + at[:, None] + cols[None, :], mask=there[:, None], other=0.0)


@triton.jit
def store_tile(base, tile, rows, n_rows, HEAD_DIM: tl.constexpr):
    cols = tl.arange(0, HEAD_DIM)
    ptrs = base + rows[:, None] * HEAD_DIM + cols[None, :]
    tl.store(ptrs, tile.to(base.dtype.element_ty), mask=rows[:, None] < n_rows)


@triton.jit
def paged_kernel(
    q, k_pages, v_pages, table, lengths, o, lse, scale,
    page_stride, head_stride, slot_stride, table_stride,
    KV_HEADS: tl.constexpr, PAGE_SIZE: tl.constexpr, GROUP: tl.constexpr,
    ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    kv_head = tl.program_id(0)
    batch, head = kv_head // KV_HEADS, kv_head % KV_HEADS
    packed = tl.arange(0, ROWS)
    q += kv_head * GROUP * HEAD_DIM
    o += kv_head * GROUP * HEAD_DIM
    lse += kv_head * GROUP
    q_tile = load_tile(q, packed, GROUP, HEAD_DIM)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    l_sum = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    length = tl.load(lengths + batch)
    for start in range(0, length, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        there = keys < length
        entry = keys // PAGE_SIZE
        slot = keys % PAGE_SIZE
        page = tl.load(table + batch * table_stride + entry, mask=there, other=0)
        at = page.to(tl.int64) * page_stride + head * head_stride + slot * slot_stride
        k_tile = load_rows(k_pages, at, there, HEAD_DIM)
        v_tile = load_rows(v_pages, at, there, HEAD_DIM)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(there[None, :], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    store_tile(o, acc / l_safe[:, None], packed, GROUP, HEAD_DIM)
    tl.store(lse + packed, m + tl.log(l_safe), mask=packed < GROUP)


def paged_decode(q, k_pages, v_pages, table, lengths, *, block_k=64):
    q = q.contiguous()
    b, h, _, d = q.shape
    _, kv_heads, page_size, _ = k_pages.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h, 1), dtype=torch.float32, device=q.device)
    paged_kernel[(b * kv_heads,)](
        q, k_pages, v_pages, table, lengths, o, lse, d**-0.5,
        *k_pages.stride()[:3], table.stride(0),
        KV_HEADS=kv_heads, PAGE_SIZE=page_size, GROUP=h // kv_heads,
        ROWS=16, HEAD_DIM=d, BLOCK_K=block_k,
    )  # fmt: skip
    return o, lse
