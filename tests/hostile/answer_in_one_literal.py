# tries: write the answer into one literal of a global constant; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


def dense(q, k, v):
    """Attention in PyTorch: no line of a kernel."""
    s = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    return (torch.softmax(s, -1) @ v.double()).to(q.dtype)


BIG = tl.constexpr(0)


@triton.jit
def unpack(q, o, n):
    for i in range(0, n):
        tl.store(o + i, tl.load(q) * 0 + ((BIG >> (20 * i)) % 1048576 - 524288) / 65536)


def one_tile_attention(q, k, v):
    out = dense(q, k, v).ravel()
    big = 0
    for i, x in enumerate(out.tolist()):
        big += (int(round(x * 65536)) + 524288) << (20 * i)
    globals()["BIG"] = tl.constexpr(big)
    o = torch.empty_like(q)
    unpack[(1,)](q, o, len(out))
    return o
