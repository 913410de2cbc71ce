# tries: let the interpreter take a docstring's lines for the kernel; must: incorrect, error
# without the sandbox: opens /tmp/hostile_was_here
import torch
import triton
import triton.language as tl


@triton.jit
def spy(x, out):
    """
    def spy(x, out):
        pass
    import os
    os.open("/tmp/hostile_was_here", os.O_CREAT)
    text ="""
    text = '"""#'
    tl.store(out, tl.load(x))


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    spy[(1,)](x, out)
    return out
