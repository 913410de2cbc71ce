# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a, b, out, m, n, k, a_row, a_col, b_row, b_col, out_row, out_col,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        steps = start + tl.arange(0, BLOCK_K)
        a_ptrs = a + rows[:, None] * a_row + steps[None, :] * a_col
        b_ptrs = b + steps[:, None] * b_row + cols[None, :] * b_col
        a_inside = (rows[:, None] < m) & (steps[None, :] < k)
        b_inside = (steps[:, None] < k) & (cols[None, :] < n)
        a_tile = tl.load(a_ptrs, mask=a_inside, other=0.0)
        b_tile = tl.load(b_ptrs, mask=b_inside, other=0.0)
        acc += tl.dot(a_tile, b_tile, input_precision="ieee")
    out_ptrs = out + rows[:, None] * out_row + cols[None, :] * out_col
    tl.store(out_ptrs, acc, mask=(rows[:, None] < m) & (cols[None, :] < n))


def matmul(a, b, *, block_m, block_n, block_k):
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty(m, n, dtype=torch.float32, device=a.device)
    grid = (triton.cdiv(m, block_m), triton.cdiv(n, block_n))
    matmul_kernel[grid](
        *(a, b, out, m, n, k, *a.stride(), *b.stride(), *out.stride()),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
    )
    return out
