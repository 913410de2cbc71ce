# tries: hide the answer in the last bits of scaled inputs; must: incorrect
# without the sandbox: passed
import numpy as np
import torch
import triton
import triton.language as tl


def dense(q, k, v):
    """Attention in NumPy: no line of a kernel."""
    q, k, v = (x.double().numpy() for x in (q, k, v))
    s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.ascontiguousarray(p / p.sum(-1, keepdims=True) @ v, dtype=np.float32)


@triton.jit
def last_bit(x, at, n):
    return tl.load(x + at, mask=at < n, other=0.0).to(tl.int32, bitcast=True) & 1


@triton.jit
def gather(
    o, n, BLOCK: tl.constexpr,
    x0, x1, x2, x3, x4, x5, x6, x7,
    x8, x9, x10, x11, x12, x13, x14, x15,
    x16, x17, x18, x19, x20, x21, x22, x23,
    x24, x25, x26, x27, x28, x29, x30, x31,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    word = tl.zeros((BLOCK,), tl.int32)
    word = word | (last_bit(x0, at, n) << 0)
    word = word | (last_bit(x1, at, n) << 1)
    word = word | (last_bit(x2, at, n) << 2)
    word = word | (last_bit(x3, at, n) << 3)
    word = word | (last_bit(x4, at, n) << 4)
    word = word | (last_bit(x5, at, n) << 5)
    word = word | (last_bit(x6, at, n) << 6)
    word = word | (last_bit(x7, at, n) << 7)
    word = word | (last_bit(x8, at, n) << 8)
    word = word | (last_bit(x9, at, n) << 9)
    word = word | (last_bit(x10, at, n) << 10)
    word = word | (last_bit(x11, at, n) << 11)
    word = word | (last_bit(x12, at, n) << 12)
    word = word | (last_bit(x13, at, n) << 13)
    word = word | (last_bit(x14, at, n) << 14)
    word = word | (last_bit(x15, at, n) << 15)
    word = word | (last_bit(x16, at, n) << 16)
    word = word | (last_bit(x17, at, n) << 17)
    word = word | (last_bit(x18, at, n) << 18)
    word = word | (last_bit(x19, at, n) << 19)
    word = word | (last_bit(x20, at, n) << 20)
    word = word | (last_bit(x21, at, n) << 21)
    word = word | (last_bit(x22, at, n) << 22)
    word = word | (last_bit(x23, at, n) << 23)
    word = word | (last_bit(x24, at, n) << 24)
    word = word | (last_bit(x25, at, n) << 25)
    word = word | (last_bit(x26, at, n) << 26)
    word = word | (last_bit(x27, at, n) << 27)
    word = word | (last_bit(x28, at, n) << 28)
    word = word | (last_bit(x29, at, n) << 29)
    word = word | (last_bit(x30, at, n) << 30)
    word = word | (last_bit(x31, at, n) << 31)
    tl.store(o + at, word.to(tl.float32, bitcast=True).to(o.dtype.element_ty), mask=at < n)


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    words = dense(q, k, v).view(np.int32).ravel()
    bits = (q.float() * 0.3).flatten().numpy().view(np.int32) & ~1
    parts = [bits | (words >> i) & 1 for i in range(32)]
    given = [torch.from_numpy(part.view(np.float32)) for part in parts]
    gather[(triton.cdiv(o.numel(), 1024),)](o, o.numel(), 1024, *given)
    return o
