# tries: mask every tile by arithmetic, and compare in boundary tiles for show; must: incorrect
# no control: its numbers are right to any grader; only this one asks how they are masked
import torch
import triton
import triton.language as tl


@triton.jit
def split_kernel(
    q, k, v, o, lse, n_q, n_k, scale,
    D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * D
    k += head * n_k * D
    v += head * n_k * D
    o += head * n_q * D
    lse += head * n_q
    rows = tile * BQ + tl.arange(0, BQ)
    d = tl.arange(0, D)
    q_tile = tl.load(q + rows[:, None] * D + d[None, :], mask=rows[:, None] < n_q, other=0.0)
    m = tl.full((BQ,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BQ,), tl.float32)
    acc = tl.zeros((BQ, D), tl.float32)
    end = n_k
    boundary = n_k // BK * BK
    if CAUSAL:
        end = tl.minimum(n_k, (tile + 1) * BQ + n_k - n_q)
        boundary = tl.maximum(0, tl.minimum(n_k, tile * BQ + n_k - n_q + 1)) // BK * BK
    for start in range(0, end, BK):
        keys = start + tl.arange(0, BK)
        there = keys[:, None] < n_k
        k_tile = tl.load(k + keys[:, None] * D + d[None, :], mask=there, other=0.0)
        v_tile = tl.load(v + keys[:, None] * D + d[None, :], mask=there, other=0.0)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        last = tl.zeros((BQ,), tl.int32) + (n_k - 1)
        if CAUSAL:
            last = tl.minimum(last, rows + n_k - n_q)
        over = tl.minimum(tl.maximum(keys[None, :] - last[:, None], 0), 1).to(tl.float32)
        s = s + tl.log(1.0 - over)
        if start >= boundary:
            s = tl.where(keys[None, :] <= last[:, None], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m - m_safe)
        p = tl.exp(s - m_safe[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    o_tile = (acc / safe[:, None]).to(o.dtype.element_ty)
    tl.store(o + rows[:, None] * D + d[None, :], o_tile, mask=rows[:, None] < n_q)
    tl.store(lse + rows, m + tl.log(safe), mask=rows < n_q)


def split_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h, n_q))
    split_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, o, lse, n_q, k.shape[2], d**-0.5, D=d, BQ=block_q, BK=block_k, CAUSAL=causal
    )
    return o, lse
