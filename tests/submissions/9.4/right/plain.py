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
def dk_dv_kernel(
    q, k, v, do, lse, delta, dk, dv, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    do += head * n_q * HEAD_DIM
    lse += head * n_q
    delta += head * n_q
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    dk += head * n_k * HEAD_DIM
    dv += head * n_k * HEAD_DIM
    keys = tile * BLOCK_K + tl.arange(0, BLOCK_K)  # (block_k,)
    k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
    v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
    dk_tile = tl.zeros((BLOCK_K, HEAD_DIM), tl.float32)
    dv_tile = tl.zeros((BLOCK_K, HEAD_DIM), tl.float32)
    first = 0
    if CAUSAL:
        first = tl.maximum(tile * BLOCK_K - (n_k - n_q), 0) // BLOCK_Q * BLOCK_Q
    for start in range(first, n_q, BLOCK_Q):
        rows = start + tl.arange(0, BLOCK_Q)  # (block_q,)
        q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
        do_tile = load_tile(do, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
        lse_row = tl.load(lse + rows, mask=rows < n_q, other=float("inf"))  # (block_q,)
        delta_row = tl.load(delta + rows, mask=rows < n_q, other=0.0)  # (block_q,)
        s = tl.dot(k_tile, tl.trans(q_tile), input_precision="ieee") * scale  # (block_k, block_q)
        p = tl.exp(s - lse_row[None, :])
        if CAUSAL:
            seen = keys[:, None] <= (rows + n_k - n_q)[None, :]
            p = tl.where(seen, p, 0.0)
        dv_tile += tl.dot(p.to(do_tile.dtype), do_tile, input_precision="ieee")
        dp = tl.dot(v_tile, tl.trans(do_tile), input_precision="ieee")  # (block_k, block_q)
        ds = p * (dp - delta_row[None, :])
        dk_tile += tl.dot(ds.to(q_tile.dtype), q_tile, input_precision="ieee")
    store_tile(dk, dk_tile * scale, keys, n_k, HEAD_DIM)
    store_tile(dv, dv_tile, keys, n_k, HEAD_DIM)


def dk_and_dv(q, k, v, do, lse, delta, *, causal=False, block_q=64, block_k=64):
    """Return dk and dv (B, H, n_k, d), in k's dtype.

    q, do (B, H, n_q, d), k, v (B, H, n_k, d); lse, delta (B, H, n_q), float32.
    """
    q, k, v, do, lse, delta = (x.contiguous() for x in (q, k, v, do, lse, delta))
    b, h, n_q, d = q.shape
    n_k = k.shape[2]
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    dk_dv_kernel[(triton.cdiv(n_k, block_k), b * h)](
        q, k, v, do, lse, delta, dk, dv, n_q, n_k, d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k, CAUSAL=causal,
    )  # fmt: skip
    return dk, dv
