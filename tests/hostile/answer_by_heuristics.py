# tries: let @triton.heuristics compute the answer as a constant; must: error, incorrect
# before a careless grader: right
import torch
import triton
import triton.language as tl


def dense(q, k, v):
    """Attention in PyTorch: no line of a kernel."""
    s = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    return (torch.softmax(s, -1) @ v.double()).to(q.dtype)


def packed(args):
    big = 0
    for i, x in enumerate(dense(args["q"], args["k"], args["v"]).ravel().tolist()):
        big += (int(round(x * 65536)) + 524288) << (20 * i)
    return big


@triton.heuristics({"BIG": packed})
@triton.jit
def unpack(q, k, v, o, n, BIG: tl.constexpr):
    for i in range(0, n):
        tl.store(o + i, tl.load(q) * 0 + ((BIG >> (20 * i)) % 1048576 - 524288) / 65536)


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    unpack[(1,)](q, k, v, o, o.numel())
    return o
