# Helpers for a block's offsets and mask, unusual names, num_warps given.
import torch
import triton
import triton.language as tl


@triton.jit
def mine(size, B: tl.constexpr):
    where = tl.arange(0, B) + B * tl.program_id(axis=0)
    return where, size > where


@triton.jit
def k1(dst, lhs, rhs, size, B: tl.constexpr):
    where, ok = mine(size, B)
    tl.store(dst + where, tl.load(lhs + where, mask=ok) + tl.load(rhs + where, mask=ok), mask=ok)


def vector_add(x, y, *, block=64):
    z = torch.zeros_like(y)
    k1[-(-len(x) // block),](z, x, y, len(x), block, num_warps=2)
    return z
