# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def scratch_kernel(
    Q, K, V, O, LSE,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d,
    v_b, v_h, v_n, v_d, o_b, o_h, o_n, o_d,
    heads, group, n_q, n_k, scale,
    D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    tile, batch, head = tl.program_id(0), tl.program_id(1) // heads, tl.program_id(1) % heads
    rows = tile * BQ + tl.arange(0, BQ)
    cols = tl.arange(0, D)
    q_at = Q + batch * q_b + head * q_h + rows[:, None] * q_n + cols[None, :] * q_d
    k_at = K + batch * k_b + (head // group) * k_h + cols[:, None] * k_d
    v_at = V + batch * v_b + (head // group) * v_h + cols[None, :] * v_d
    q_tile = tl.load(q_at, mask=rows[:, None] < n_q, other=0.0)
    m = tl.full((BQ,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BQ,), tl.float32)
    acc = tl.zeros((BQ, D), tl.float32)
    end = tl.minimum(n_k, (tile + 1) * BQ + n_k - n_q) if CAUSAL else n_k
    for start in range(0, end, BK):
        keys = start + tl.arange(0, BK)
        k_tile = tl.load(k_at + keys[None, :] * k_n, mask=keys[None, :] < n_k, other=0.0)
        v_tile = tl.load(v_at + keys[:, None] * v_n, mask=keys[:, None] < n_k, other=0.0)
        seen = keys[None, :] < n_k
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + n_k - n_q)
        s = tl.dot(q_tile, k_tile, input_precision="ieee") * scale
        s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m - m_safe)
        p = tl.exp(s - m_safe[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    o_at = O + batch * o_b + head * o_h + rows[:, None] * o_n + cols[None, :] * o_d
    tl.store(o_at, (acc / l_safe[:, None]).to(O.dtype.element_ty), mask=rows[:, None] < n_q)
    tl.store(LSE + tl.program_id(1) * n_q + rows, m + tl.log(l_safe), mask=rows < n_q)


def flash_from_scratch(q, k, v, *, causal=False, block_q=64, block_k=64):
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h, n_q), dtype=torch.float32, device=q.device)
    scratch_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, o, lse,
        *q.stride(), *k.stride(), *v.stride(), *o.stride(),
        h, h // k.shape[1], n_q, k.shape[2], d**-0.5,
        D=d, BQ=block_q, BK=block_k, CAUSAL=causal,
    )  # fmt: skip
    return o, lse
