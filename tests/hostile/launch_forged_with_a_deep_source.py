# tries: send a source that overflows whoever parses it; must: incorrect, error
# no control: the source is refused wherever it is read
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def put(o):
    tl.store(o, 1.0)


def one_tile_attention(q, k, v):
    kernels = sys.modules["course_lib.sandbox.kernel_source"]
    for deep in ("(" * 60_000, "-" * 60_000 + "1", "x" + "[0" * 30_000, "if 1:\n" * 90):
        kernels.gather = lambda kernel, deep=deep: (deep, "put")
        try:
            put[(1,)](torch.zeros(1))
        except Exception:
            pass
    return q.clone()
