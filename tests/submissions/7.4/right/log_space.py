# Answers and lse of two tiles are merged, no m and no l.
import torch
import triton
import triton.language as tl


@triton.jit
def log_space_kernel(
    q, k, v, o, lse, n_q, n_k, scale,
    D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Two notes: the answer so far and its lse; a tile's own answer and lse are merged in."""
    tile, head = tl.program_id(0), tl.program_id(1)
    rows, cols = tile * BQ + tl.arange(0, BQ), tl.arange(0, D)
    own = (head * n_q + rows[:, None]) * D + cols[None, :]
    q_tile = tl.load(q + own, mask=rows[:, None] < n_q, other=0.0)
    so_far = tl.full((BQ,), float("-inf"), tl.float32)
    answer = tl.zeros((BQ, D), tl.float32)
    end = n_k
    if CAUSAL:
        end = tl.minimum(n_k, (tile + 1) * BQ + n_k - n_q)
    for start in range(0, end, BK):
        keys = start + tl.arange(0, BK)
        there = (head * n_k + keys[:, None]) * D + cols[None, :]
        k_tile = tl.load(k + there, mask=keys[:, None] < n_k, other=0.0)
        v_tile = tl.load(v + there, mask=keys[:, None] < n_k, other=0.0)
        seen = (keys < n_k)[None, :]
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + n_k - n_q)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(seen, s, float("-inf"))
        top = tl.max(s, 1)
        base = tl.where(top == float("-inf"), 0.0, top)
        p = tl.exp(s - base[:, None])
        total = tl.sum(p, 1)
        tile_lse = tl.where(total == 0.0, float("-inf"), base + tl.log(total))
        p = p / tl.where(total == 0.0, 1.0, total)[:, None]
        part = tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        high = tl.maximum(so_far, tile_lse)
        safe = tl.where(high == float("-inf"), 0.0, high)
        old, new = tl.exp(so_far - safe), tl.exp(tile_lse - safe)
        both = tl.where(old + new == 0.0, 1.0, old + new)
        answer = answer * (old / both)[:, None] + part * (new / both)[:, None]
        so_far = tl.where(old + new == 0.0, float("-inf"), safe + tl.log(both))
    tl.store(o + own, answer.to(o.dtype.element_ty), mask=rows[:, None] < n_q)
    tl.store(lse + head * n_q + rows, so_far, mask=rows < n_q)


def my_flash_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
    q, k, v = (x.contiguous() for x in (q, k, v))
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    log_space_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, o, lse, n_q, k.shape[2], d**-0.5, D=d, BQ=block_q, BK=block_k, CAUSAL=causal
    )
    return o, lse
