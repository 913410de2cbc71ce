# V is read with the batch stride of K.
# Expected: property: stays inside its tensors
# Compiled
import torch
import triton
import triton.language as tl


@triton.jit
def _decode(
    Q, K, V, O, L, qb, qh, qd, kb, kh, kn, kd, vb, vh, vn, vd, kv_heads, group, n, scale,
    D: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    b, g = tl.program_id(0) // kv_heads, tl.program_id(0) % kv_heads
    r, c = tl.arange(0, 16), tl.arange(0, D)
    mine = r < group
    heads = g * group + r
    x = tl.load(Q + b * qb + heads[:, None] * qh + c[None, :] * qd, mask=mine[:, None], other=0.0)
    top = tl.full((16,), float("-inf"), tl.float32)
    total = tl.zeros((16,), tl.float32)
    out = tl.zeros((16, D), tl.float32)
    for start in range(0, n, BK):
        j = start + tl.arange(0, BK)
        at_k = K + b * kb + g * kh + j[None, :] * kn + c[:, None] * kd
        at_v = V + b * vb + g * vh + j[:, None] * vn + c[None, :] * vd
        kt = tl.load(at_k, mask=j[None, :] < n, other=0.0)
        s = (
            tl.dot(x, kt, input_precision="ieee") * scale
            + tl.where(j < n, 0.0, float("-inf"))[None, :]
        )
        new = tl.maximum(top, tl.max(s, 1))
        e = tl.exp(s - new[:, None])
        shrink = tl.exp(top - new)
        total = total * shrink + tl.sum(e, 1)
        vt = tl.load(at_v, mask=j[:, None] < n, other=0.0)
        out = out * shrink[:, None] + tl.dot(e.to(vt.dtype), vt, input_precision="ieee")
        top = new
    row = b * kv_heads * group + heads
    result = (out / total[:, None]).to(O.dtype.element_ty)
    tl.store(O + row[:, None] * D + c[None, :], result, mask=mine[:, None])
    tl.store(L + row, top + tl.log(total), mask=mine)


def packed_decode(q, k, v, *, block_k=64):
    b, h, d = q.shape
    o = torch.empty((b, h, d), dtype=q.dtype, device=q.device)
    lse = torch.empty((b, h), dtype=torch.float32, device=q.device)
    _decode[(b * k.shape[1],)](
        q, k, v, o, lse, *q.stride(), *k.stride(), k.stride(0), *v.stride()[1:],
        k.shape[1], h // k.shape[1], k.shape[2], d**-0.5, D=d, BK=block_k,
    )  # fmt: skip
    return o, lse
