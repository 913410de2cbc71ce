# A tile is put together page by page: one entry of the table for each page that it lies on.
# Compiled
import torch
import triton
import triton.language as tl


@triton.jit
def decode_kernel(
    q, k_pages, v_pages, table, lengths, o, lse, scale, sp, sh, st, row,
    H_KV: tl.constexpr, PAGE: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    head, batch = tl.program_id(0), tl.program_id(1)
    r, c = tl.arange(0, 16), tl.arange(0, D)
    mine = (batch * H_KV + head) * GROUP + r
    x = tl.load(q + mine[:, None] * D + c[None, :], mask=r[:, None] < GROUP, other=0.0)
    n = tl.load(lengths + batch)
    m = tl.full((16,), float("-inf"), tl.float32)
    l = tl.zeros((16,), tl.float32)
    acc = tl.zeros((16, D), tl.float32)
    for first in range(0, n, BK):
        t = first + tl.arange(0, BK)
        end = tl.minimum(first + BK, n)
        k = tl.zeros((BK, D), k_pages.dtype.element_ty)
        v = tl.zeros((BK, D), v_pages.dtype.element_ty)
        for i in range(first // PAGE, tl.cdiv(end, PAGE)):
            page = tl.load(table + batch * row + i).to(tl.int64)
            at = page * sp + head * sh + (t - i * PAGE) * st
            here = (t // PAGE == i) & (t < n)
            k += tl.load(k_pages + at[:, None] + c[None, :], mask=here[:, None], other=0.0)
            v += tl.load(v_pages + at[:, None] + c[None, :], mask=here[:, None], other=0.0)
        s = tl.dot(x, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(t[None, :] < n, s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - top[:, None])
        l = l * tl.exp(m - top) + tl.sum(p, 1)
        acc = acc * tl.exp(m - top)[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = top
    total = tl.where(n > 0, l, 1.0)
    result = (acc / total[:, None]).to(o.dtype.element_ty)
    tl.store(o + mine[:, None] * D + c[None, :], result, mask=r[:, None] < GROUP)
    tl.store(lse + mine, m + tl.log(total), mask=r < GROUP)


def paged_decode(q, k_pages, v_pages, table, lengths, *, block_k=64):
    q = q.contiguous()
    b, h, _, d = q.shape
    kv_heads, page = k_pages.shape[1:3]
    o = torch.empty_like(q)
    lse = q.new_empty((b, h, 1), dtype=torch.float32)
    decode_kernel[(kv_heads, b)](
        q, k_pages, v_pages, table, lengths, o, lse, d**-0.5,
        k_pages.stride(0), k_pages.stride(1), k_pages.stride(2), table.stride(0),
        H_KV=kv_heads, PAGE=page, GROUP=h // kv_heads, D=d, BK=block_k,
    )  # fmt: skip
    return o, lse
