# Pointers are advanced; masked places get a number of their own.
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x += offsets
    y += offsets
    out += offsets
    b = tl.load(y, mask, other=-7.0)
    a = tl.load(x, mask, other=7.0)
    tl.store(out, b + a, mask)


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    n = x.numel()
    programs = triton.cdiv(n, block)
    add_kernel[(programs,)](x, y, out, n, BLOCK=block)
    return out
