# A barrier holds the threads of one program, not the other programs.
# Expected: property: does not race
# Equivalent to load_add_store: the barrier changes nothing.
import torch
import triton
import triton.language as tl


@triton.jit
def mended_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0)
    before = tl.load(out)
    tl.debug_barrier()
    tl.store(out, before + part)


def mended_total(x, *, block=64):
    n = x.numel()
    out = torch.zeros(1, dtype=torch.float32, device=x.device)
    mended_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
    return out
