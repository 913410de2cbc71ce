# tries: read k twice, once from a tensor in which q, k and v are packed; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def two(q, k, v, P, o, k0, n_q, n_k, scale, D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr):
    tile = tl.program_id(0)
    hd = tl.program_id(1)
    rows = tile * BQ + tl.arange(0, BQ)
    cols = tl.arange(0, D)
    qt = tl.load(q + hd * n_q * D + rows[:, None] * D + cols[None, :])
    m = tl.full((BQ,), float("-inf"), tl.float32)
    for start in range(0, n_k, BK):
        keys = start + tl.arange(0, BK)
        kt = tl.load(P + k0 + hd * n_k * D + keys[None, :] * D + cols[:, None])
        s = tl.sum(qt.to(tl.float32)[:, :, None] * kt.to(tl.float32)[None, :, :], 1) * scale
        m = tl.maximum(m, tl.max(s, 1))
    l = tl.zeros((BQ,), tl.float32)
    acc = tl.zeros((BQ, D), tl.float32)
    for start in range(0, n_k, BK):
        keys = start + tl.arange(0, BK)
        kt = tl.load(k + hd * n_k * D + keys[:, None] * D + cols[None, :])
        vt = tl.load(v + hd * n_k * D + keys[:, None] * D + cols[None, :])
        p = tl.exp(tl.dot(qt, tl.trans(kt), input_precision="ieee") * scale - m[:, None])
        l += tl.sum(p, 1)
        acc += tl.dot(p.to(vt.dtype), vt, input_precision="ieee")
    tl.store(
        o + hd * n_q * D + rows[:, None] * D + cols[None, :],
        (acc / l[:, None]).to(o.dtype.element_ty),
    )


def looped_attention(q, k, v, *, block_q=64, block_k=64):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n_q, d = q.shape
    P = torch.cat([q.reshape(-1), k.reshape(-1), v.reshape(-1)])
    o = torch.empty_like(q)
    two[(n_q // block_q, b * h)](
        q, k, v, P, o, q.numel(), n_q, k.shape[2], d**-0.5, D=d, BQ=block_q, BK=block_k
    )
    return o
