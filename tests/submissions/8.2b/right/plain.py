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
def hide(s, rows, keys, n_q, n_k, CAUSAL: tl.constexpr):
    """Set scores (block_q, block_k) of keys that a row may not see to -inf."""
    s = tl.where(keys[None, :] < n_k, s, float("-inf"))
    if CAUSAL:
        last = rows + n_k - n_q  # the last key that each row sees
        s = tl.where(keys[None, :] <= last[:, None], s, float("-inf"))
    return s


@triton.jit
def add_keys(m, l_sum, acc, s, v_tile):
    """Return the three notes after one more tile of scores (block_q, block_k)."""
    m_new = tl.maximum(m, tl.max(s, 1))
    m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # a row without a key
    alpha = tl.exp(m - m_safe)
    p = tl.exp(s - m_safe[:, None])
    l_sum = l_sum * alpha + tl.sum(p, 1)
    acc = acc * alpha[:, None]
    acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
    return m_new, l_sum, acc


@triton.jit
def split_kernel(
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
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    end = n_k
    if CAUSAL:
        end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)
    # boundary: where the first tile begins that needs a mask; then the two loops
    seen = n_k  # how many keys every row of this tile sees
    if CAUSAL:
        seen = tl.minimum(n_k, tl.maximum(tile * BLOCK_Q + n_k - n_q + 1, 0))
    boundary = seen // BLOCK_K * BLOCK_K
    for start in range(0, boundary, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        m, l_sum, acc = add_keys(m, l_sum, acc, s, v_tile)
    for start in range(boundary, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = hide(s, rows, keys, n_q, n_k, CAUSAL)
        m, l_sum, acc = add_keys(m, l_sum, acc, s, v_tile)
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    store_tile(o, acc / l_safe[:, None], rows, n_q, HEAD_DIM)
    tl.store(lse + rows, m + tl.log(l_safe), mask=rows < n_q)


def split_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
    """Return o (B, H, n_q, d) and lse (B, H, n_q), float32."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h, n_q), dtype=torch.float32, device=q.device)
    split_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, o, lse, n_q, k.shape[2], d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k, CAUSAL=causal,
    )  # fmt: skip
    return o, lse
