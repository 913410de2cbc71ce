# A grid of one axis, tiles in groups of rows; rows past the end wrap round.
# Compiled
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a, b, out, m, n, k, a_row, a_col, b_row, b_col, out_row, out_col,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(n, BLOCK_N)
    rows = tl.program_id(0) // across * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(0) % across * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        steps = start + tl.arange(0, BLOCK_K)
        a_ptrs = a + (rows % m)[:, None] * a_row + steps[None, :] * a_col
        b_ptrs = b + steps[:, None] * b_row + cols[None, :] * b_col
        a_inside = steps[None, :] < k
        b_inside = (steps[:, None] < k) & (cols[None, :] < n)
        a_tile = tl.load(a_ptrs, mask=a_inside, other=0.0)
        b_tile = tl.load(b_ptrs, mask=b_inside, other=0.0)
        acc += tl.dot(a_tile, b_tile, input_precision="ieee")
    out_ptrs = out + rows[:, None] * out_row + cols[None, :] * out_col
    tl.store(out_ptrs, acc, mask=(rows[:, None] < m) & (cols[None, :] < n))


def matmul(a, b, *, block_m, block_n, block_k):
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty(m, n, dtype=torch.float32, device=a.device)
    matmul_kernel[
        lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)
    ](
        *(a, b, out, m, n, k, *a.stride(), *b.stride(), *out.stride()),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
    )
    return out
