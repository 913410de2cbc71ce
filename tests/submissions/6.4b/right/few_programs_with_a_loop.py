# Programs walk over several blocks; a number is zeroed by the launcher.
import triton
import triton.language as tl


@triton.jit
def mended_kernel(x, out, n, BLOCK: tl.constexpr):
    part = 0.0
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        part += tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0)
    tl.atomic_add(out, part)


def mended_total(x, *, block=64):
    n = x.numel()
    out = x.new_zeros(1)
    mended_kernel[(min(3, triton.cdiv(n, block)),)](x, out, n, BLOCK=block)
    return out
