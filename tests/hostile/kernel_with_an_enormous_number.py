# tries: have a number computed that fills the memory of whoever computes it; must: incorrect, error
# without the sandbox: never ends
import torch
import triton
import triton.language as tl


@triton.jit
def put(o):
    x = 9**9**9
    tl.store(o, x % 10)


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    put[(1,)](o)
    return o
