# tries: let a kernel do the last step only: the division by the sum; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def divide(acc, total, o, d, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(acc + at, mask=at < n) / tl.load(total + at // d, mask=at < n)
    tl.store(o + at, x, mask=at < n)


def one_tile_attention(q, k, v):
    o, n = torch.empty_like(q), q.numel()
    s = q.float() @ k.float().transpose(-1, -2) * q.shape[-1] ** -0.5
    p = torch.exp(s - s.amax(-1, keepdim=True))
    divide[(triton.cdiv(n, 256),)](p @ v.float(), p.sum(-1), o, q.shape[-1], n, BLOCK=256)
    return o
