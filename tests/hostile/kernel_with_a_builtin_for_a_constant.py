# tries: call a builtin of Python under the name of a constant; must: error
# without the sandbox: opens /tmp/hostile_was_here
import torch
import triton
import triton.language as tl

SOURCE = """
run = exec
exec = 1

@triton.jit
def spy(x, out):
    run("open('/tmp/hostile_was_here', 'w')")
"""


@triton.jit
def spy(x, out):
    tl.store(out, tl.load(x))


def vector_add(x, y, *, block=64):
    from course_lib.sandbox import kernel_source as kernels

    kernels.gather = lambda kernel: (SOURCE, "spy")
    spy[(1,)](x, torch.empty_like(x))
    return x + y
