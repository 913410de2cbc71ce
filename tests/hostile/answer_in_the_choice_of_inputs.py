# tries: say each bit of the answer by which of two inputs is passed; must: incorrect
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
def put(planes, q, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.load(q + at, mask=at < n, other=0.0)
    x = tl.zeros((BLOCK,), tl.int32)
    for i in tl.static_range(32):
        x = x | ((tl.load(planes[i] + at, mask=at < n, other=0.0) != first).to(tl.int32) << i)
    tl.store(o + at, x.to(tl.float32, bitcast=True).to(o.dtype.element_ty), mask=at < n)


def one_tile_attention(q, k, v):
    """32 tensors: where a bit is set they hold a number of k, elsewhere that of q."""
    o = torch.empty_like(q)
    n = o.numel()
    words = dense(q, k, v).view(np.uint32).ravel()
    ours, theirs = q.flatten(), k.flatten().repeat(triton.cdiv(n, k.numel()))[:n]
    bits = [torch.from_numpy((words >> i & 1).astype(bool)) for i in range(32)]
    planes = tuple(torch.where(bit, theirs, ours) for bit in bits)
    put[(triton.cdiv(n, 1024),)](planes, ours, o, n, BLOCK=1024)
    return o
