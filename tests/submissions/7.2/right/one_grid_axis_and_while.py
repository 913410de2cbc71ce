# One grid axis, advanced pointers, while, unusual names, a lowest float for -inf.
# Compiled, but not by Triton 3.5
import torch
import triton
import triton.language as tl


@triton.jit
def k(Q, K, V, O, n, m, tiles, scale, D: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    pid = tl.program_id(0)
    head, i = pid // tiles, pid % tiles
    d = tl.arange(0, D)
    own = (head * n + i * R + tl.arange(0, R))[:, None] * D + d[None, :]
    query = tl.load(Q + own) * scale
    k_ptrs = K + head * m * D + tl.arange(0, C)[None, :] * D + d[:, None]
    v_ptrs = V + head * m * D + tl.arange(0, C)[:, None] * D + d[None, :]
    top = tl.full([R], -3.0e38, dtype=tl.float32)
    den = tl.zeros([R], dtype=tl.float32)
    num = tl.zeros([R, D], dtype=tl.float32)
    left = m
    while left > 0:
        score = tl.dot(query.to(tl.float32), tl.load(k_ptrs).to(tl.float32), input_precision="ieee")
        higher = tl.maximum(top, tl.max(score, axis=1))
        fade = tl.exp(top - higher)
        weight = tl.exp(score - higher[:, None])
        den = tl.sum(weight, axis=1) + fade * den
        value = tl.load(v_ptrs).to(tl.float32)
        num = tl.dot(weight, value, num * fade[:, None], input_precision="ieee")
        top = higher
        k_ptrs += C * D
        v_ptrs += C * D
        left -= C
    tl.store(O + own, num / den[:, None])


def looped_attention(q, k_, v, *, block_q=64, block_k=64):
    q, k_, v = q.float().contiguous(), k_.contiguous(), v.contiguous()
    (b, h, n, d), m = q.shape, k_.shape[-2]
    out = torch.empty(b, h, n, d, device=q.device, dtype=k_.dtype)
    tiles = n // block_q
    k[b * h * tiles,](q, k_, v, out, n, m, tiles, d**-0.5, D=d, R=block_q, C=block_k)
    return out
