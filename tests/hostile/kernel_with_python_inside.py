# tries: reach Python from inside a kernel that is interpreted; must: error
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def escape(x, out):
    tl.store(out, ().__class__.__base__.__subclasses__().__len__())


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    escape[(1,)](x, out)
    return x + y
