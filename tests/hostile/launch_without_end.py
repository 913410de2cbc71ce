# tries: launch a thousand million programs; must: error
# without the sandbox: never ends
import torch
import triton
import triton.language as tl


@triton.jit
def one(x, out):
    tl.store(out, tl.load(x))


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    one[(1000, 1000, 1000)](x, out)
    return x + y
