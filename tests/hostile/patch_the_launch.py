# tries: replace what a launch does by PyTorch; must: incorrect, error
# without the sandbox: passed
import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction


@triton.jit
def pretend(q, k, v, o):
    tl.store(o, tl.load(q))


def _instead(kernel, q, k, v, o, **options):
    o.copy_(torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v)


def one_tile_attention(q, k, v):
    InterpretedFunction.run = _instead
    o = torch.empty_like(q)
    pretend[(1,)](q, k, v, o)
    return o
