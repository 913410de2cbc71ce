# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def turned_kernel(
    x, out, top, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    tl.static_assert(COLS <= 2 * ROWS, "a tile is wider than the first stairs")
    tile = tl.program_id(0)
    rows = tile * ROWS + tl.arange(0, ROWS)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    end = tl.minimum(n_cols, 2 * (tile + 1) * ROWS)
    for start in range(0, end, COLS):
        cols = start + tl.arange(0, COLS)
        inside = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        x_ptrs = x + rows[:, None] * n_cols + cols[None, :]
        x_tile = tl.load(x_ptrs, mask=inside, other=float("-inf"))
        out_ptrs = out + cols[:, None] * n_rows + rows[None, :]
        sees = cols[None, :] <= 2 * rows[:, None] + 1
        kept = tl.where(sees, x_tile, float("-inf")).to(out.dtype.element_ty)
        tl.store(out_ptrs, tl.trans(kept), mask=tl.trans(inside))
        m = tl.maximum(m, tl.max(kept, 1))
    tl.store(top + rows, m, mask=rows < n_rows)


def turned_stairs(x, *, half, block_rows, block_cols):
    n_rows, n_cols = x.shape
    dtype = torch.float16 if half else torch.float32
    out = torch.full((n_cols, n_rows), float("-inf"), dtype=dtype, device=x.device)
    top = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(n_rows, block_rows),)
    turned_kernel[grid](x, out, top, n_rows, n_cols, ROWS=block_rows, COLS=block_cols)
    return out, top
