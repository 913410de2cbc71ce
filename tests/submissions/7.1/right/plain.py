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
def one_tile_kernel(
    q, k, v, o, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    q += head * BLOCK_Q * HEAD_DIM
    k += head * BLOCK_K * HEAD_DIM
    v += head * BLOCK_K * HEAD_DIM
    o += head * BLOCK_Q * HEAD_DIM
    rows = tl.arange(0, BLOCK_Q)
    keys = tl.arange(0, BLOCK_K)
    q_tile = load_tile(q, rows, BLOCK_Q, HEAD_DIM)
    k_tile = load_tile(k, keys, BLOCK_K, HEAD_DIM)
    v_tile = load_tile(v, keys, BLOCK_K, HEAD_DIM)
    s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
    s = s * scale
    m = tl.max(s, 1)
    p = tl.exp(s - m[:, None])
    l_sum = tl.sum(p, 1)
    acc = tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
    o_tile = acc / l_sum[:, None]
    store_tile(o, o_tile, rows, BLOCK_Q, HEAD_DIM)


def one_tile_attention(q, k, v):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    one_tile_kernel[(b * h,)](
        q, k, v, o, d**-0.5,
        HEAD_DIM=d, BLOCK_Q=n_q, BLOCK_K=k.shape[2],
    )  # fmt: skip
    return o
