# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def scores_kernel(
    q, k, out, q_row, q_col, k_row, k_col, out_row, out_col,
    D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.arange(0, BLOCK_Q)
    keys = tl.arange(0, BLOCK_K)
    dims = tl.arange(0, D)
    q_tile = tl.load(q + rows[:, None] * q_row + dims[None, :] * q_col)
    k_tile = tl.load(k + keys[:, None] * k_row + dims[None, :] * k_col)
    q_tile = q_tile.to(k_tile.dtype)
    s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
    tl.store(out + rows[:, None] * out_row + keys[None, :] * out_col, s)


def tile_scores(q, k):
    (block_q, d), block_k = q.shape, k.shape[0]
    out = torch.empty(block_q, block_k, dtype=torch.float32, device=q.device)
    scores_kernel[(1,)](
        *(q, k, out, *q.stride(), *k.stride(), *out.stride()),
        D=d,
        BLOCK_Q=block_q,
        BLOCK_K=block_k,
    )
    return out
