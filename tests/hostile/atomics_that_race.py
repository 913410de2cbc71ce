# tries: pass off a race as safe, each of whose accesses is atomic; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def mended_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0)
    old = tl.atomic_add(out, 0.0)
    tl.atomic_add(out, old + part - tl.atomic_add(out, 0.0))


def mended_total(x, *, block=64):
    n = x.numel()
    out = torch.zeros(1, dtype=torch.float32, device=x.device)
    mended_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
    return out
