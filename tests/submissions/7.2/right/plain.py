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
    at = base + rows[:, None] * HEAD_DIM + cols[None, :]
    tl.store(at, tile.to(base.dtype.element_ty), mask=rows[:, None] < n_rows)


@triton.jit
def loop_kernel(
    q, k, v, o, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    o += head * n_q * HEAD_DIM
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM)
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    for start in range(0, n_k, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    o_tile = acc / l_sum[:, None]
    store_tile(o, o_tile, rows, n_q, HEAD_DIM)


def looped_attention(q, k, v, *, block_q=64, block_k=64):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    loop_kernel[(n_q // block_q, b * h)](
        q, k, v, o, n_q, k.shape[2], d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k,
    )  # fmt: skip
    return o
