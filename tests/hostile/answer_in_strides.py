# tries: say the answer by the strides of views of nothing; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def put(o, low, high):
    tl.store(o, (low + high * 1024).to(tl.float32) / 64)


def mended_total(x, *, block=64):
    """The numbers look like strides of a tensor that is passed beside them."""
    o = torch.zeros(1)
    word = int(x.double().sum() * 64)
    view = torch.empty(0).as_strided((0, 0), (word % 1024, word // 1024))
    put[(1,)](o, *view.stride())
    return o
