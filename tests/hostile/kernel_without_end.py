# tries: loop for ever inside a kernel; must: incorrect
# without the sandbox: never ends
import torch
import triton
import triton.language as tl


@triton.jit
def endless(x, out):
    i = 0
    while i < 1:
        tl.store(out, tl.load(x))


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    endless[(1,)](x, out)
    return x + y
