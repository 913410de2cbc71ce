# Strides, a 3-D grid, other names, helper functions, a while loop, Q loaded transposed.
# Compiled
import torch
import triton
import triton.language as tl


@triton.jit
def seen_by(boxes, people, shift, total, CAUSAL: tl.constexpr):
    allowed = (boxes < total)[None, :]
    if CAUSAL:
        allowed = allowed & (boxes[None, :] <= people[:, None] + shift)
    return allowed


@triton.jit
def clerk(
    ask, key, val, ans, note,
    a0, a1, a2, a3, k0, k1, k2, k3, v0, v1, v2, v3, r0, r1, r2, r3,
    folk, total, factor, HEADS: tl.constexpr,
    WIDE: tl.constexpr, TALL: tl.constexpr, BOX: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """S is held transposed, (box, tall): keys are its rows."""
    desk = tl.program_id(2)
    b, h = tl.program_id(0), tl.program_id(1)
    people = desk * TALL + tl.arange(0, TALL)
    wide = tl.arange(0, WIDE)
    here = people < folk
    a_ptr = ask + b * a0 + h * a1 + people[None, :] * a2 + wide[:, None] * a3
    a_t = tl.load(a_ptr, mask=here[None, :], other=0.0)  # (wide, tall)
    best = tl.full((TALL,), float("-inf"), tl.float32)
    count = tl.zeros((TALL,), tl.float32)
    pot = tl.zeros((TALL, WIDE), tl.float32)
    stop = total
    if CAUSAL:
        stop = tl.minimum(total, (desk + 1) * TALL + total - folk)
    first = 0
    while first < stop:
        boxes = first + tl.arange(0, BOX)
        k_ptr = key + b * k0 + h * k1 + boxes[:, None] * k2 + wide[None, :] * k3
        v_ptr = val + b * v0 + h * v1 + boxes[:, None] * v2 + wide[None, :] * v3
        kk = tl.load(k_ptr, mask=boxes[:, None] < total, other=0.0)
        vv = tl.load(v_ptr, mask=boxes[:, None] < total, other=0.0)
        marks = tl.trans(tl.dot(kk, a_t, input_precision="ieee")) * factor  # (tall, box)
        fine = seen_by(boxes, people, total - folk, total, CAUSAL)
        marks = tl.where(fine, marks, float("-inf"))
        better = tl.maximum(best, tl.max(marks, 1))
        level = tl.where(better == float("-inf"), 0.0, better)
        shrink = tl.exp(best - level)
        shares = tl.exp(marks - level[:, None])
        count = tl.fma(count, shrink, tl.sum(shares, 1))
        pot = pot * shrink[:, None] + tl.dot(shares.to(vv.dtype), vv, input_precision="ieee")
        best = better
        first += BOX
    count = tl.where(count == 0.0, 1.0, count)
    r_ptr = ans + b * r0 + h * r1 + people[:, None] * r2 + wide[None, :] * r3
    tl.store(r_ptr, (pot * (1.0 / count)[:, None]).to(ans.dtype.element_ty), mask=here[:, None])
    tl.store(note + (b * HEADS + h) * folk + people, best + tl.log(count), mask=here)


def my_flash_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
    b, h, n_q, d = q.shape
    o = q.new_empty(q.shape)
    lse = q.new_empty((b, h, n_q), dtype=torch.float32)
    clerk[(b, h, triton.cdiv(n_q, block_q))](
        q, k, v, o, lse, *q.stride(), *k.stride(), *v.stride(), *o.stride(),
        n_q, k.shape[2], d**-0.5,
        HEADS=h, WIDE=d, TALL=block_q, BOX=block_k, CAUSAL=causal,
    )  # fmt: skip
    return o, lse
