# 132 programs walk over the tiles, and none of them empties its accumulator.
# Expected: property: the values
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a,
    b,
    out,
    m,
    n,
    k,
    a_row,
    a_col,
    b_row,
    b_col,
    out_row,
    out_col,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """One program: one tile of out = a @ b. a: (m, k), b: (k, n)."""
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)  # a typed start
    across = tl.cdiv(n, BLOCK_N)
    for tile in range(tl.program_id(0), tl.cdiv(m, BLOCK_M) * across, tl.num_programs(0)):
        rows = (tile // across) * BLOCK_M + tl.arange(0, BLOCK_M)  # (block_m,)
        cols = (tile % across) * BLOCK_N + tl.arange(0, BLOCK_N)  # (block_n,)
        for start in range(0, k, BLOCK_K):
            steps = start + tl.arange(0, BLOCK_K)  # (block_k,)
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
    """Return a @ b in float32. a: (m, k), b: (k, n), one dtype."""
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty(m, n, dtype=torch.float32, device=a.device)
    grid = (min(132, triton.cdiv(m, block_m) * triton.cdiv(n, block_n)),)
    matmul_kernel[grid](
        *(a, b, out, m, n, k, *a.stride(), *b.stride(), *out.stride()),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
    )
    return out
