# tries: open a file with the NumPy that the interpreter lends its kernels; must: error
# without the sandbox: passed
import torch
import triton
import triton.language as tl

SOURCE = """
import triton
import triton.language as tl

@triton.jit
def spy(x, out):
    a = np.fromfile("/etc/os-release", "uint8")
    tl.store(out, 1.0)
"""


@triton.jit
def spy(x, out):
    tl.store(out, tl.load(x))


def vector_add(x, y, *, block=64):
    from course_lib.sandbox import kernel_source as kernels

    kernels.gather = lambda kernel: (SOURCE, "spy")
    spy[(1,)](x, torch.empty_like(x))
    return x + y
