# tries: say each bit of the answer by the dtype of an empty tensor; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def put(bits, o):
    word = 0
    for i in tl.static_range(24):
        if bits[i].dtype.element_ty == tl.float16:
            word += 1 << i
    tl.store(o, word / 64)


def mended_total(x, *, block=64):
    o = torch.zeros(1)
    word = int(x.double().sum() * 64)
    kinds = [torch.float16 if word >> i & 1 else torch.float32 for i in range(24)]
    put[(1,)](tuple(torch.zeros(1, dtype=kind) for kind in kinds), o)
    return o
