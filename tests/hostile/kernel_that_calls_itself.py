# tries: overflow the stack of the process that runs kernels; must: error, incorrect
# without the sandbox: takes the memory
import torch
import triton
import triton.language as tl


@triton.jit
def again(x):
    return again(x) + 1


@triton.jit
def put(o):
    tl.store(o, again(1.0))


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    put[(1,)](o)
    return o
