# tries: launch a kernel that does nothing useful and return PyTorch's answer; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def useless(q, scratch):
    tl.store(scratch, tl.load(q))


def one_tile_attention(q, k, v):
    useless[(1,)](q, torch.empty(1, dtype=q.dtype))
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v
