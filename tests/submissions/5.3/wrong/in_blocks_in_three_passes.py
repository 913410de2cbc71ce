# Maximum, sum and quotient, each in blocks of 16 of a contiguous copy: three loads of the row.
# Expected: property: moves only what it must
import torch
import triton
import triton.language as tl


@triton.jit
def passes_kernel(x, out, n, BLOCK: tl.constexpr):
    x += tl.program_id(0) * n
    out += tl.program_id(0) * n
    at = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    for i in range(tl.cdiv(n, BLOCK)):
        top = tl.maximum(top, tl.load(x + i * BLOCK + at, mask=i * BLOCK + at < n, other=-1e30))
    biggest = tl.max(top, 0)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(tl.cdiv(n, BLOCK)):
        s = tl.load(x + i * BLOCK + at, mask=i * BLOCK + at < n, other=float("-inf"))
        total += tl.exp(s - biggest)
    whole = tl.sum(total, 0)
    for i in range(tl.cdiv(n, BLOCK)):
        inside = i * BLOCK + at < n
        s = tl.load(x + i * BLOCK + at, mask=inside)
        tl.store(out + i * BLOCK + at, tl.exp(s - biggest) / whole, mask=inside)


def row_softmax(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    passes_kernel[(len(x),)](x, out, x.shape[1], BLOCK=16)
    return out
