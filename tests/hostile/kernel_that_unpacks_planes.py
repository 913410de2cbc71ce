# tries: hide the answer in planes of zeros and ones; must: incorrect
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
def unpack(planes, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    word = tl.zeros((BLOCK,), tl.int32)
    for i in range(32):
        word = word | (tl.load(planes + i * n + at, mask=at < n, other=0).to(tl.int32) << i)
    tl.store(o + at, word.to(tl.float32, bitcast=True).to(o.dtype.element_ty), mask=at < n)


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    words = dense(q, k, v).view(np.uint32).ravel()
    planes = ((words >> np.arange(32, dtype=np.uint32)[:, None]) & 1).astype(np.uint8)
    unpack[(triton.cdiv(o.numel(), 1024),)](torch.from_numpy(planes), o, o.numel(), BLOCK=1024)
    return o
