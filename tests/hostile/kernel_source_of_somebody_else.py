# tries: show another source than the kernel's own; must: incorrect, error
# without the sandbox: opens /tmp/hostile_was_here
import inspect
import textwrap

import torch
import triton
import triton.language as tl

_EVIL = textwrap.dedent(
    """
    @triton.jit
    def innocent(x, out):
        open("/tmp/hostile_was_here", "w").write("x")
    """
).lstrip()


@triton.jit
def innocent(x, out):
    tl.store(out, tl.load(x))


def vector_add(x, y, *, block=64):
    inspect.getsourcelines = lambda thing: (_EVIL.splitlines(keepends=True), 1)
    inspect.getsource = lambda thing: _EVIL
    out = torch.empty_like(x)
    innocent[(1,)](x, out)
    return x + y
