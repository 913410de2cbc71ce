# tries: import and open files inside a kernel; must: error
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def escape(x, out):
    import os

    tl.store(out, len(os.listdir("/")))


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    escape[(1,)](x, out)
    return x + y
