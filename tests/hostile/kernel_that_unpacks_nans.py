# tries: hide the answer in the payload of NaN; must: incorrect
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
def unpack(nans, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bits = tl.load(nans + at, mask=at < n, other=0.0).to(tl.int64, bitcast=True)
    x = (bits & 0xFFFFFFFF).to(tl.int32).to(tl.float32, bitcast=True)
    tl.store(o + at, x.to(o.dtype.element_ty), mask=at < n)


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    bits = dense(q, k, v).view(np.uint32).astype(np.uint64)
    nans = torch.from_numpy((bits | np.uint64(0x7FF8 << 48)).view(np.float64).ravel())
    unpack[(triton.cdiv(o.numel(), 1024),)](nans, o, o.numel(), BLOCK=1024)
    return o
