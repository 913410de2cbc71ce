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
def delta_kernel(
    o, do, delta, n_q,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    o_tile = load_tile(o + head * n_q * HEAD_DIM, rows, n_q, HEAD_DIM).to(tl.float32)
    do_tile = load_tile(do + head * n_q * HEAD_DIM, rows, n_q, HEAD_DIM).to(tl.float32)
    delta_row = tl.sum(o_tile * do_tile, 1)
    tl.store(delta + head * n_q + rows, delta_row, mask=rows < n_q)


@triton.jit
def drop_factor(seed, head, rows, keys, n_q, n_k, rate):
    """Return D where rows and keys cross: 0 with probability rate, else 1 / (1 - rate)."""
    place = (head.to(tl.int64) * n_q + rows) * n_k + keys
    return tl.where(tl.rand(seed, place) < rate, 0.0, 1.0 / (1.0 - rate))


@triton.jit
def dropped_forward_kernel(
    q, k, v, o, lse, n_q, n_k, scale, rate, seed,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    o += head * n_q * HEAD_DIM
    lse += head * n_q
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    end = n_k
    if CAUSAL:
        end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n_k, s, float("-inf"))
        if CAUSAL:
            s = tl.where(keys[None, :] <= (rows + n_k - n_q)[:, None], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))  # (block_q,)
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m - m_safe)
        p = tl.exp(s - m_safe[:, None])  # (block_q, block_k)
        l_sum = l_sum * alpha + tl.sum(p, 1)  # of all weights, dropped or not
        p *= drop_factor(seed, head, rows[:, None], keys[None, :], n_q, n_k, rate)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    store_tile(o, acc / l_safe[:, None], rows, n_q, HEAD_DIM)
    tl.store(lse + rows, m + tl.log(l_safe), mask=rows < n_q)


@triton.jit
def dropped_dk_dv_kernel(
    q, k, v, do, lse, delta, dk, dv, n_q, n_k, scale, rate, seed,
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
            p = tl.where(keys[:, None] <= (rows + n_k - n_q)[None, :], p, 0.0)
        factor = drop_factor(seed, head, rows[None, :], keys[:, None], n_q, n_k, rate)
        dv_tile += tl.dot((p * factor).to(do_tile.dtype), do_tile, input_precision="ieee")
        dp = tl.dot(v_tile, tl.trans(do_tile), input_precision="ieee") * factor
        ds = p * (dp - delta_row[None, :])
        dk_tile += tl.dot(ds.to(q_tile.dtype), q_tile, input_precision="ieee")
    store_tile(dk, dk_tile * scale, keys, n_k, HEAD_DIM)
    store_tile(dv, dv_tile, keys, n_k, HEAD_DIM)


@triton.jit
def dropped_dq_kernel(
    q, k, v, do, lse, delta, dq, n_q, n_k, scale, rate, seed,
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
            p = tl.where(keys[None, :] <= (rows + n_k - n_q)[:, None], p, 0.0)
        dp = tl.dot(do_tile, tl.trans(v_tile), input_precision="ieee")  # (block_q, block_k)
        dp *= drop_factor(seed, head, rows[:, None], keys[None, :], n_q, n_k, rate)
        ds = p * (dp - delta_row[:, None])
        dq_tile += tl.dot(ds.to(k_tile.dtype), k_tile, input_precision="ieee")
    store_tile(dq, dq_tile * scale, rows, n_q, HEAD_DIM)


class DroppedAttention(torch.autograd.Function):
    """o, lse = DroppedAttention.apply(...): attention that drops weights while it trains."""

    @staticmethod
    def forward(ctx, q, k, v, causal, rate, seed, block_q, block_k):
        """Return o (B, H, n_q, d) and lse (B, H, n_q), float32; keep what backward needs."""
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        b, h, n_q, d = q.shape
        n_k = k.shape[2]
        o = torch.empty_like(q)
        lse = torch.empty((b, h, n_q), dtype=torch.float32, device=q.device)
        how = {"HEAD_DIM": d, "BLOCK_Q": block_q, "BLOCK_K": block_k, "CAUSAL": causal}
        dropped_forward_kernel[(triton.cdiv(n_q, block_q), b * h)](
            q, k, v, o, lse, n_q, n_k, d**-0.5, rate, seed, **how
        )
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.rate, ctx.seed, ctx.how = rate, seed, how
        ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    def backward(ctx, do, of_lse):
        """Return dq, dk, dv, and None for each of the five others."""
        q, k, v, o, lse = ctx.saved_tensors
        do = do.contiguous()
        b, h, n_q, d = q.shape
        n_k, block_q, block_k = k.shape[2], ctx.how["BLOCK_Q"], ctx.how["BLOCK_K"]
        delta = torch.empty_like(lse)
        delta_kernel[(triton.cdiv(n_q, block_q), b * h)](
            o, do, delta, n_q, HEAD_DIM=d, BLOCK_Q=block_q
        )
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        given = (n_q, n_k, d**-0.5, ctx.rate, ctx.seed)
        dropped_dk_dv_kernel[(triton.cdiv(n_k, block_k), b * h)](
            q, k, v, do, lse, delta, dk, dv, *given, **ctx.how
        )
        dropped_dq_kernel[(triton.cdiv(n_q, block_q), b * h)](
            q, k, v, do, lse, delta, dq, *given, **ctx.how
        )
        return dq, dk, dv, None, None, None, None, None
