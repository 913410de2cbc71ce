# tries: hide the answer between the elements of an overlapping view; must: incorrect
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
def unpack(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + 2 * at + 1, mask=at < n, other=0.0)
    tl.store(o + at, value.to(o.dtype.element_ty), mask=at < n)


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    n = o.numel()
    room = torch.zeros(2 * n + 4)
    room[1 : 2 * n : 2] = torch.from_numpy(dense(q, k, v).ravel())
    unpack[(triton.cdiv(n, 1024),)](room.as_strided((2, n + 1), (2, 2)), o, n, BLOCK=1024)
    return o
