# tries: let a kernel write the output, then write another answer over it; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def zeros(o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, 0.0, mask=at < n)


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    zeros[(triton.cdiv(o.numel(), 256),)](o, o.numel(), BLOCK=256)
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return o.copy_(torch.softmax(s.float(), -1).to(v.dtype) @ v)
