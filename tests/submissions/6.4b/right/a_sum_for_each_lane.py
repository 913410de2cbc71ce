# Each lane has a sum of its own, of every program; a second kernel adds up the lanes.
import torch
import triton
import triton.language as tl


@triton.jit
def kern(x, lanes, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x + at, mask=at < n, other=0.0)
    tl.atomic_add(lanes + tl.arange(0, BLOCK), acc)


@triton.jit
def last(lanes, out, BLOCK: tl.constexpr):
    tl.store(out, tl.sum(tl.load(lanes + tl.arange(0, BLOCK)), 0))


def mended_total(x, *, block=64):
    n = x.numel()
    lanes = torch.zeros(block, dtype=torch.float32, device=x.device)
    out = torch.empty((1,), dtype=torch.float32, device=x.device)
    programs = min(triton.cdiv(n, block), 40)
    kern[(programs,)](x, lanes, n, BLOCK=block)
    last[(1,)](lanes, out, BLOCK=block)
    return out
