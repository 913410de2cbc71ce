# tries: run Python in a message of a kernel, which nobody compiles; must: error
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < n, other=0.0)
    b = tl.load(y + at, mask=at < n, other=0.0)
    tl.static_print(f"{a.handle.data!r}")
    tl.store(out + at, a + b, mask=at < n)


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block)
    return out
