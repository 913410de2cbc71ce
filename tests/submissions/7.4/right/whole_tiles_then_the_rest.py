# Two loops (tiles without a mask first), K loaded transposed, a helper returning three notes.
import torch
import triton
import triton.language as tl


@triton.jit
def take(s, v_tile, m, l_sum, acc):
    """Fold one tile of scores (block_q, block_k) into the notes."""
    m_new = tl.maximum(m, tl.max(s, 1))
    m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
    alpha = tl.exp(m - m_safe)
    p = tl.exp(s - m_safe[:, None])
    l_sum = l_sum * alpha + tl.sum(p, 1)
    acc = tl.dot(p.to(v_tile.dtype), v_tile, acc * alpha[:, None], input_precision="ieee")
    return m_new, l_sum, acc


@triton.jit
def two_loops(
    Q, K, V, O, L, n_q, n_k, scale,
    D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    i, head = tl.program_id(0), tl.program_id(1)
    rows, cols = i * BQ + tl.arange(0, BQ), tl.arange(0, D)
    at = rows[:, None] * D + cols[None, :]
    q = tl.load(Q + head * n_q * D + at, mask=rows[:, None] < n_q, other=0.0)
    K += head * n_k * D
    V += head * n_k * D
    m = tl.full((BQ,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BQ,), tl.float32)
    acc = tl.zeros((BQ, D), tl.float32)
    first_hidden = i * BQ + n_k - n_q + 1 if CAUSAL else n_k
    end = tl.minimum(n_k, (i + 1) * BQ + n_k - n_q) if CAUSAL else n_k
    whole = tl.maximum(tl.minimum(first_hidden, n_k), 0) // BK * BK
    for start in range(0, whole, BK):  # every row sees every key
        keys = start + tl.arange(0, BK)
        kt = tl.load(K + keys[None, :] * D + cols[:, None])
        v = tl.load(V + keys[:, None] * D + cols[None, :])
        s = tl.dot(q, kt, input_precision="ieee") * scale
        m, l_sum, acc = take(s, v, m, l_sum, acc)
    for start in range(whole, end, BK):
        keys = start + tl.arange(0, BK)
        kt = tl.load(K + keys[None, :] * D + cols[:, None], mask=keys[None, :] < n_k, other=0.0)
        v = tl.load(V + keys[:, None] * D + cols[None, :], mask=keys[:, None] < n_k, other=0.0)
        s = tl.dot(q, kt, input_precision="ieee") * scale
        seen = keys[None, :] < n_k
        if CAUSAL:
            seen &= keys[None, :] <= rows[:, None] + n_k - n_q
        s = tl.where(seen, s, float("-inf"))
        m, l_sum, acc = take(s, v, m, l_sum, acc)
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    out = (acc / l_safe[:, None]).to(O.dtype.element_ty)
    tl.store(O + head * n_q * D + at, out, mask=rows[:, None] < n_q)
    tl.store(L + head * n_q + rows, m + tl.log(l_safe), mask=rows < n_q)


def my_flash_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    (b, h, n_q, d), n_k = q.shape, k.shape[2]
    o = torch.empty_like(q)
    lse = torch.empty((b, h, n_q), dtype=torch.float32, device=q.device)
    two_loops[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, o, lse, n_q, n_k, d**-0.5, D=d, BQ=block_q, BK=block_k, CAUSAL=causal
    )
    return o, lse
