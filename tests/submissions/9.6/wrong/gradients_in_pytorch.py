# The forward is a kernel; the gradients are products of PyTorch.
# Expected: property: is computed by the kernel
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
    q, k, v, o, lse, n_q, n_k, scale,
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
        q, k, v, o, lse, n_q, k.shape[2], d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k, CAUSAL=causal,
    )  # fmt: skip
    return o, lse


class Attention(torch.autograd.Function):
    """o = Attention.apply(q, k, v, causal): attention that can be differentiated."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        """Return o (B, H, n_q, d); keep what backward needs."""
        o, lse = flash_forward(q, k, v, causal=causal)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.causal = causal
        return o

    @staticmethod
    def backward(ctx, do):
        """Return dq, dk, dv and None, computed by PyTorch."""
        q, k, v, o, lse = (x.float() for x in ctx.saved_tensors)
        do = do.float()
        scale = q.shape[-1] ** -0.5
        p = torch.exp(q @ k.transpose(-1, -2) * scale - lse[..., None])
        if ctx.causal:
            n_q, n_k = p.shape[-2:]
            hidden = torch.ones(n_q, n_k, dtype=torch.bool).triu(n_k - n_q + 1)
            p = p.masked_fill(hidden, 0)
        ds = p * (do @ v.transpose(-1, -2) - (o * do).sum(-1)[..., None]) * scale
        dq, dk = ds @ k, ds.transpose(-1, -2) @ q
        dv = p.transpose(-1, -2) @ do
        return (*(x.to(ctx.saved_tensors[0].dtype) for x in (dq, dk, dv)), None)
