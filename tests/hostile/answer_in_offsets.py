# tries: say the answer by where in the input a view begins; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def put(first, ten, hundred, o):
    start = first.to(tl.int64, bitcast=True)
    ones = (ten.to(tl.int64, bitcast=True) - start) // 4
    rest = (hundred.to(tl.int64, bitcast=True) - start) // 4
    tl.store(o, (ones + rest * 100).to(tl.float32) / 100)


def mended_total(x, *, block=64):
    o = torch.zeros(1)
    word = int(x.double().sum() * 100)
    put[(1,)](x, x[word % 100 :], x[word // 100 % 100 :], o)
    return o + word // 10000 * 100
