# d in steps of 16, with an accumulator and a while loop: more than one tl.dot.
# Expected: property: is one tl.dot
import torch
import triton
import triton.language as tl


@triton.jit
def steps_kernel(a, b, c, d, M: tl.constexpr, N: tl.constexpr):
    i, j, step = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 16)
    a_ptrs = a + i[:, None] * d + step[None, :]
    b_ptrs = b + j[None, :] * d + step[:, None]
    acc = tl.zeros([M, N], dtype=tl.float32)
    while d > 0:
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc, input_precision="ieee")
        a_ptrs += 16
        b_ptrs += 16
        d -= 16
    tl.store(c + i[:, None] * N + j[None, :], acc)


def tile_scores(q, k):
    both = torch.promote_types(q.dtype, k.dtype)
    q, k = q.to(both).contiguous(), k.to(both).contiguous()
    c = torch.empty((len(q), len(k)), device=q.device)
    steps_kernel[(1,)](q, k, c, q.shape[1], len(q), len(k))
    return c
