# tries: launch kernels where none is asked for; must: incorrect, error
# before a careless grader: right
import torch
import triton
import triton.language as tl


@triton.jit
def one(x, out):
    tl.store(out, tl.load(x))


def echo(x):
    one[(1,)](torch.zeros(1), torch.zeros(1))
    return x.copy()
