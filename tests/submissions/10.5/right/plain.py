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
def store_tile(base, tile, rows, n_rows, HEAD_DIM: tl.constexpr):
    cols = tl.arange(0, HEAD_DIM)
    ptrs = base + rows[:, None] * HEAD_DIM + cols[None, :]
    tl.store(ptrs, tile.to(base.dtype.element_ty), mask=rows[:, None] < n_rows)


@triton.jit
def split_kernel(
    q, k, v, o_parts, lse_parts, n, share, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(0)
    kv_head = tl.program_id(1)
    packed = tl.arange(0, ROWS)
    q += kv_head * GROUP * HEAD_DIM
    k += kv_head * n * HEAD_DIM
    v += kv_head * n * HEAD_DIM
    q_tile = load_tile(q, packed, GROUP, HEAD_DIM)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    l_sum = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    first = split * share
    end = tl.minimum(first + share, n)
    for start in range(first, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        k_tile = load_tile(k, keys, end, HEAD_DIM)
        v_tile = load_tile(v, keys, end, HEAD_DIM)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < end, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    part = (split * tl.num_programs(1) + kv_head) * GROUP
    store_tile(o_parts + part * HEAD_DIM, acc / l_safe[:, None], packed, GROUP, HEAD_DIM)
    tl.store(lse_parts + part + packed, m + tl.log(l_safe), mask=packed < GROUP)


def decode_splits(q, k, v, splits, *, block_k=64):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, d = q.shape
    _, kv_heads, n, _ = k.shape
    o_parts = torch.empty((splits, b, h, d), dtype=torch.float32, device=q.device)
    lse_parts = torch.empty((splits, b, h), dtype=torch.float32, device=q.device)
    split_kernel[(splits, b * kv_heads)](
        q, k, v, o_parts, lse_parts, n, triton.cdiv(n, splits), d**-0.5,
        GROUP=h // kv_heads, ROWS=16, HEAD_DIM=d, BLOCK_K=block_k,
    )  # fmt: skip
    return o_parts, lse_parts
