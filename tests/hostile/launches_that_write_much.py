# tries: fill the grader's memory with what launches have written; must: incorrect, error
# without the sandbox: never ends
import torch
import triton
import triton.language as tl


@triton.jit
def put(o, x):
    tl.store(o, x)


def one_tile_attention(q, k, v):
    o = torch.zeros(4 << 20)
    for i in range(1, 100000):
        put[(1,)](o, float(i))
    return o
