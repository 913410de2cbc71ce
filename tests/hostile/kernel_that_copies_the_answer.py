# tries: compute in PyTorch and let a kernel copy it to the output; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def copy(answer, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(answer + at, mask=at < n), mask=at < n)


def one_tile_attention(q, k, v):
    answer = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v
    o = torch.empty_like(answer)
    copy[(triton.cdiv(o.numel(), 256),)](answer, o, o.numel(), BLOCK=256)
    return o
