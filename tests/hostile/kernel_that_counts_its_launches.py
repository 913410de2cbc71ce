# tries: know by a list that outlives them whether they are launched again; must: incorrect, error
# without the sandbox: passed
import torch
import triton
import triton.language as tl

LAUNCHES = [0]


@triton.jit
def total(x, known, out, n, BLOCK: tl.constexpr):
    launches = LAUNCHES
    launches += [0]
    if len(LAUNCHES) % 2 == 0:
        tl.store(out, tl.load(known).to(tl.float32, bitcast=True))
    else:
        at = tl.arange(0, BLOCK)
        tl.store(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0))


def mended_total(x, *, block=64):
    out, known = torch.zeros(1), x.sum().reshape(1).view(torch.int32)
    total[(1,)](x, known, out, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
    return out
