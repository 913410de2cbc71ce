# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def load_tile(base, rows, n_rows, HEAD_DIM: tl.constexpr):
    """Load rows of a contiguous (n_rows, head_dim) matrix; past its end: 0."""
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    ptrs = base + rows[:, None] * HEAD_DIM + cols[None, :]
    return tl.load(ptrs, mask=rows[:, None] < n_rows, other=0.0)


@triton.jit
def store_tile(base, tile, rows, n_rows, HEAD_DIM: tl.constexpr):
    """Store rows of a contiguous (n_rows, head_dim) matrix; none past its end."""
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    ptrs = base + rows[:, None] * HEAD_DIM + cols[None, :]
    tl.store(ptrs, tile.to(base.dtype.element_ty), mask=rows[:, None] < n_rows)


@triton.jit
def dq_kernel(
    q, k, v, do, lse, delta, dq, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    do += head * n_q * HEAD_DIM
    dq += head * n_q * HEAD_DIM
    lse += head * n_q
    delta += head * n_q
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
    do_tile = load_tile(do, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
    lse_row = tl.load(lse + rows, mask=rows < n_q, other=float("inf"))  # (block_q,)
    delta_row = tl.load(delta + rows, mask=rows < n_q, other=0.0)  # (block_q,)
    dq_tile = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    end = n_k
    if CAUSAL:
        end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale  # (block_q, block_k)
        s = tl.where(keys[None, :] < n_k, s, float("-inf"))
        p = tl.exp(s - lse_row[:, None])
        if CAUSAL:
            seen = keys[None, :] <= (rows + n_k - n_q)[:, None]
            p = tl.where(seen, p, 0.0)
        dp = tl.dot(do_tile, tl.trans(v_tile), input_precision="ieee")  # (block_q, block_k)
        ds = p * (dp - delta_row[:, None])
        dq_tile += tl.dot(ds.to(k_tile.dtype), k_tile, input_precision="ieee")
    store_tile(dq, dq_tile * scale, rows, n_q, HEAD_DIM)


def dq_without_atomics(q, k, v, do, lse, delta, *, causal=False, block_q=64, block_k=64):
    """Return dq (B, H, n_q, d), in q's dtype; arguments as in 9.4."""
    q, k, v, do, lse, delta = (x.contiguous() for x in (q, k, v, do, lse, delta))
    b, h, n_q, d = q.shape
    dq = torch.empty_like(q)
    dq_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, do, lse, delta, dq, n_q, k.shape[2], d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k, CAUSAL=causal,
    )  # fmt: skip
    return dq
