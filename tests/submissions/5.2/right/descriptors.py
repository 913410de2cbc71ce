# Tensor descriptors, which mask the end themselves.
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    x_desc = tl.make_tensor_descriptor(x, [n], [1], [BLOCK])
    y_desc = tl.make_tensor_descriptor(y, [n], [1], [BLOCK])
    out_desc = tl.make_tensor_descriptor(out, [n], [1], [BLOCK])
    out_desc.store([start], x_desc.load([start]) + y_desc.load([start]))


def scratch(size, alignment, stream):
    """Memory for the descriptors that a program makes (a GPU asks for it)."""
    return torch.empty(size, dtype=torch.int8, device="cuda")


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    n = x.numel()
    if x.is_cuda:
        triton.set_allocator(scratch)
    add_kernel[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block)
    return out
