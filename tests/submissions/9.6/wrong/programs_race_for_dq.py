# Each program adds its part of dq by load, add and store, which only holds one after the other.
# Expected: property: does not race
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
def flash_kernel(
    q,
    k,
    v,
    o,
    lse,
    n_q,
    n_k,
    scale,
    HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    o += head * n_q * HEAD_DIM
    lse += head * n_q
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
    # m (block_q,), l_sum (block_q,), acc (block_q, head_dim)
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
            last = rows + n_k - n_q  # the last key that each row sees
            s = tl.where(keys[None, :] <= last[:, None], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))  # (block_q,)
        # subtract m_safe where you subtracted m_new: a row without a key
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m - m_safe)  # old scale -> new scale
        p = tl.exp(s - m_safe[:, None])  # (block_q, block_k)
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    # o_tile (block_q, head_dim), lse_row (block_q,)
    o_tile = acc / l_safe[:, None]
    lse_row = m + tl.log(l_safe)
    store_tile(o, o_tile, rows, n_q, HEAD_DIM)
    tl.store(lse + rows, lse_row, mask=rows < n_q)


def flash_forward(q, k, v, *, causal=False, block_q=64, block_k=64):
    """Return o (B, H, n_q, d) and lse (B, H, n_q), float32."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h, n_q), dtype=torch.float32, device=q.device)
    flash_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q,
        k,
        v,
        o,
        lse,
        n_q,
        k.shape[2],
        d**-0.5,
        HEAD_DIM=d,
        BLOCK_Q=block_q,
        BLOCK_K=block_k,
        CAUSAL=causal,
    )
    return o, lse


@triton.jit
def delta_k(o, do, delta, n, D: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    h = tl.program_id(1)
    a = load_tile(o + h * n * D, r, n, D).to(tl.float32)
    b = load_tile(do + h * n * D, r, n, D).to(tl.float32)
    tl.store(delta + h * n + r, tl.sum(a * b, 1), mask=r < n)


@triton.jit
def all_in_one(
    q,
    k,
    v,
    do,
    lse,
    delta,
    dq,
    dk,
    dv,
    n_q,
    n_k,
    scale,
    HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    do += head * n_q * HEAD_DIM
    dq += head * n_q * HEAD_DIM
    lse += head * n_q
    delta += head * n_q
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    dk += head * n_k * HEAD_DIM
    dv += head * n_k * HEAD_DIM
    keys = tile * BLOCK_K + tl.arange(0, BLOCK_K)
    cols = tl.arange(0, HEAD_DIM)
    kt = load_tile(k, keys, n_k, HEAD_DIM)
    vt = load_tile(v, keys, n_k, HEAD_DIM)
    dkt = tl.zeros((BLOCK_K, HEAD_DIM), tl.float32)
    dvt = tl.zeros((BLOCK_K, HEAD_DIM), tl.float32)
    for start in range(0, n_q, BLOCK_Q):
        rows = start + tl.arange(0, BLOCK_Q)
        qt = load_tile(q, rows, n_q, HEAD_DIM)
        dot = load_tile(do, rows, n_q, HEAD_DIM)
        lr = tl.load(lse + rows, mask=rows < n_q, other=float("inf"))
        de = tl.load(delta + rows, mask=rows < n_q, other=0.0)
        s = tl.dot(kt, tl.trans(qt), input_precision="ieee") * scale
        p = tl.exp(s - lr[None, :])
        if CAUSAL:
            p = tl.where(keys[:, None] <= (rows + n_k - n_q)[None, :], p, 0.0)
        dvt += tl.dot(p.to(dot.dtype), dot, input_precision="ieee")
        dp = tl.dot(vt, tl.trans(dot), input_precision="ieee")
        ds = p * (dp - de[None, :])
        ds = tl.where((keys < n_k)[:, None], ds, 0.0)
        dkt += tl.dot(ds.to(qt.dtype), qt, input_precision="ieee")
        at = dq + rows[:, None] * HEAD_DIM + cols[None, :]
        before = tl.load(at, mask=rows[:, None] < n_q, other=0.0)
        add = tl.dot(tl.trans(ds).to(kt.dtype), kt, input_precision="ieee") * scale
        tl.store(at, before + add, mask=rows[:, None] < n_q)
    store_tile(dk, dkt * scale, keys, n_k, HEAD_DIM)
    store_tile(dv, dvt, keys, n_k, HEAD_DIM)


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal):
        o, lse = flash_forward(q, k, v, causal=causal)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.causal = causal
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        q, k, v, o, do = (x.contiguous() for x in (q, k, v, o, do))
        b, h, n_q, d = q.shape
        n_k = k.shape[2]
        delta = torch.empty_like(lse)
        delta_k[(triton.cdiv(n_q, 64), b * h)](o, do, delta, n_q, D=d, B=64)
        dq = torch.zeros(q.shape, dtype=torch.float32)
        dk, dv = torch.empty_like(k), torch.empty_like(v)
        all_in_one[(triton.cdiv(n_k, 64), b * h)](
            q,
            k,
            v,
            do,
            lse,
            delta,
            dq,
            dk,
            dv,
            n_q,
            n_k,
            d**-0.5,
            HEAD_DIM=d,
            BLOCK_Q=64,
            BLOCK_K=64,
            CAUSAL=ctx.causal,
        )
        return dq.to(q.dtype), dk, dv, None
