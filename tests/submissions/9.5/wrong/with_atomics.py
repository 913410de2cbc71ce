# Keys outside: every program adds to dQ in memory.
# Expected: property: moves only what it must
import torch
import triton
import triton.language as tl


@triton.jit
def load_tile(base, rows, n_rows, HEAD_DIM: tl.constexpr):
    cols = tl.arange(0, HEAD_DIM)
    ptrs = base + rows[:, None] * HEAD_DIM + cols[None, :]
    return tl.load(ptrs, mask=rows[:, None] < n_rows, other=0.0)


@triton.jit
def adding_kernel(
    q, k, v, do, lse, delta, dq, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    head = tl.program_id(1)
    keys = tile * BLOCK_K + tl.arange(0, BLOCK_K)
    k_tile = load_tile(k + head * n_k * HEAD_DIM, keys, n_k, HEAD_DIM)
    v_tile = load_tile(v + head * n_k * HEAD_DIM, keys, n_k, HEAD_DIM)
    first = 0
    if CAUSAL:
        first = tl.maximum(tile * BLOCK_K - (n_k - n_q), 0) // BLOCK_Q * BLOCK_Q
    for start in range(first, n_q, BLOCK_Q):
        rows = start + tl.arange(0, BLOCK_Q)
        q_tile = load_tile(q + head * n_q * HEAD_DIM, rows, n_q, HEAD_DIM)
        do_tile = load_tile(do + head * n_q * HEAD_DIM, rows, n_q, HEAD_DIM)
        lse_row = tl.load(lse + head * n_q + rows, mask=rows < n_q, other=float("inf"))
        delta_row = tl.load(delta + head * n_q + rows, mask=rows < n_q, other=0.0)
        p = tl.exp(
            tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale - lse_row[:, None]
        )
        if CAUSAL:
            p = tl.where(keys[None, :] <= (rows + n_k - n_q)[:, None], p, 0.0)
        dp = tl.dot(do_tile, tl.trans(v_tile), input_precision="ieee")
        ds = p * (dp - delta_row[:, None]) * scale
        part = tl.dot(ds.to(k_tile.dtype), k_tile, input_precision="ieee")
        cols = tl.arange(0, HEAD_DIM)
        ptrs = dq + head * n_q * HEAD_DIM + rows[:, None] * HEAD_DIM + cols[None, :]
        tl.atomic_add(ptrs, part.to(dq.dtype.element_ty), mask=rows[:, None] < n_q)


def dq_without_atomics(q, k, v, do, lse, delta, *, causal=False, block_q=64, block_k=64):
    q, k, v, do, lse, delta = (x.contiguous() for x in (q, k, v, do, lse, delta))
    b, h, n_q, d = q.shape
    n_k = k.shape[2]
    dq = torch.zeros_like(q)
    adding_kernel[(triton.cdiv(n_k, block_k), b * h)](
        q, k, v, do, lse, delta, dq, n_q, n_k, d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k, CAUSAL=causal,
    )  # fmt: skip
    return dq
