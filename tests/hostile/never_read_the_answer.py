# tries: leave the grader waiting until its large answer has been read; must: incorrect
# without the sandbox: never ends
import time

import torch
import triton
import triton.language as tl
from course_lib.sandbox.channel import Channel


@triton.jit
def fill(out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, at.to(tl.float32), mask=at < n)


def vector_add(x, y, *, block=64):
    Channel.receive = lambda self, deadline=None: time.sleep(1e6)
    out = torch.empty(1 << 20)
    fill[(16,)](out, out.numel(), BLOCK=1 << 16)
    return out
