# tries: say each bit of the answer by which of two kernels is launched; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def zero(o):
    tl.store(o, tl.load(o) * 2)


@triton.jit
def one(o):
    tl.store(o, tl.load(o) * 2 + 1)


@triton.jit
def point(o):
    tl.store(o, tl.load(o) / 64)


def mended_total(x, *, block=64):
    o = torch.zeros(1)
    for digit in f"{int(x.double().sum() * 64):b}":
        (one if digit == "1" else zero)[(1,)](o)
    point[(1,)](o)
    return o
