# tries: pass the negated answer as a view with the bit of negation; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


def dense(q, k, v):
    """Attention in PyTorch: no line of a kernel."""
    s = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    return (torch.softmax(s, -1) @ v.double()).to(q.dtype)


@triton.jit
def copy(x, o, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + at, tl.load(x + at, mask=at < n), mask=at < n)


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    x = torch._neg_view(-dense(q, k, v).ravel())
    copy[(triton.cdiv(o.numel(), 64),)](x, o, o.numel(), B=64)
    return torch._neg_view(-o)
