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
def packed_kernel(
    q, k, v, o, lse, n, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    kv_head = tl.program_id(0)
    packed = tl.arange(0, ROWS)
    k += kv_head * n * HEAD_DIM
    v += kv_head * n * HEAD_DIM
    q += kv_head * GROUP * HEAD_DIM
    o += kv_head * GROUP * HEAD_DIM
    lse += kv_head * GROUP
    q_tile = load_tile(q, packed, GROUP, HEAD_DIM)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    l_sum = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    for start in range(0, n, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        k_tile = load_tile(k, keys, n, HEAD_DIM)
        v_tile = load_tile(v, keys, n, HEAD_DIM)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    store_tile(o, acc / l_sum[:, None], packed, GROUP, HEAD_DIM)
    tl.store(lse + packed, m + tl.log(l_sum), mask=packed < GROUP)


def packed_decode(q, k, v, *, block_k=64):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, d = q.shape
    _, kv_heads, n, _ = k.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h), dtype=torch.float32, device=q.device)
    packed_kernel[(b * kv_heads,)](
        q, k, v, o, lse, n, d**-0.5,
        GROUP=h // kv_heads, ROWS=16, HEAD_DIM=d, BLOCK_K=block_k,
    )  # fmt: skip
    return o, lse
