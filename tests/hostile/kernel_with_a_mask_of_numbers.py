# tries: read far outside behind a mask whose numbers point at harmless addresses; must: incorrect
# before a careless grader: right
import torch
import triton
import triton.language as tl


@triton.jit
def spy(x, out, far, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = tl.where(at == BLOCK - 1, far, at)
    mask = tl.minimum(at, BLOCK - 2)
    tl.store(out + at % 2, tl.load(x + place, mask=mask, other=0.0))


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    spy[(1,)](x, out, 20_000, BLOCK=16)
    return x + y
