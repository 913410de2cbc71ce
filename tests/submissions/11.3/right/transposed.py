# Names of its own, two axes of programs, and K comes transposed.
# Compiled
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    Q, K, V, TABLE, LENGTHS, O, L, sp, sh, ss, row, size, kv_heads, group, scale,
    D: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    g, b = tl.program_id(0), tl.program_id(1)
    i, c = tl.arange(0, 16), tl.arange(0, D)
    mine = i < group
    rows = (b * kv_heads + g) * group + i
    x = tl.load(Q + rows[:, None] * D + c[None, :], mask=mine[:, None], other=0.0)
    n = tl.load(LENGTHS + b)
    m = tl.full((16,), float("-inf"), tl.float32)
    total = tl.zeros((16,), tl.float32)
    acc = tl.zeros((16, D), tl.float32)
    for first in range(0, n, BK):
        j = first + tl.arange(0, BK)
        pages = tl.load(TABLE + b * row + j // size, mask=j < n, other=0)
        at = pages * sp + g * sh + (j - j // size * size) * ss
        kt = tl.load(K + at[None, :] + c[:, None], mask=j[None, :] < n, other=0.0)
        bias = tl.where(j < n, 0.0, float("-inf"))
        s = tl.dot(x, kt, input_precision="ieee") * scale + bias[None, :]
        new = tl.maximum(m, tl.max(s, 1))
        e = tl.exp(s - new[:, None])
        shrink = tl.exp(m - new)
        vt = tl.load(V + at[:, None] + c[None, :], mask=j[:, None] < n, other=0.0)
        total = total * shrink + tl.sum(e, 1)
        acc = acc * shrink[:, None] + tl.dot(e.to(vt.dtype), vt, input_precision="ieee")
        m = new
    some = tl.where(total > 0, total, 1.0)
    out = (acc / some[:, None]).to(O.dtype.element_ty)
    tl.store(O + rows[:, None] * D + c[None, :], out, mask=mine[:, None])
    tl.store(L + rows, m + tl.log(some), mask=mine)


def paged_decode(q, k_pages, v_pages, table, lengths, *, block_k=64):
    b, h, _, d = q.shape
    _, kv_heads, size, _ = k_pages.shape
    q = q.contiguous()
    o = torch.empty((b, h, 1, d), dtype=q.dtype, device=q.device)
    lse = torch.empty((b, h, 1), dtype=torch.float32, device=q.device)
    kernel[(kv_heads, b)](
        q, k_pages, v_pages, table, lengths, o, lse, *k_pages.stride()[:3], table.stride(0),
        size, kv_heads, h // kv_heads, d**-0.5, D=d, BK=block_k,
    )  # fmt: skip
    return o, lse
