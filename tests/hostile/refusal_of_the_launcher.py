# tries: refuse in the launcher, by the name of what the kernel is to refuse with; must: error
# no control: without the kernel's own assertion it is a right answer, and fails nowhere else
import torch
import triton
import triton.language as tl


@triton.jit
def turned(x, out, top, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    tile = tl.program_id(0)
    rows = tile * ROWS + tl.arange(0, ROWS)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    for start in range(0, tl.minimum(n_cols, 2 * (tile + 1) * ROWS), COLS):
        cols = start + tl.arange(0, COLS)
        inside = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        x_ptrs = x + rows[:, None] * n_cols + cols[None, :]
        x_tile = tl.load(x_ptrs, mask=inside, other=float("-inf"))
        sees = cols[None, :] <= 2 * rows[:, None] + 1
        kept = tl.where(sees, x_tile, float("-inf")).to(out.dtype.element_ty)
        out_ptrs = out + cols[:, None] * n_rows + rows[None, :]
        tl.store(out_ptrs, tl.trans(kept), mask=tl.trans(inside))
        m = tl.maximum(m, tl.max(kept, 1))
    tl.store(top + rows, m, mask=rows < n_rows)


def turned_stairs(x, *, half, block_rows, block_cols):
    assert block_cols <= 2 * block_rows  # tl.static_assert
    n_rows, n_cols = x.shape
    dtype = torch.float16 if half else torch.float32
    out, top = torch.full((n_cols, n_rows), float("-inf"), dtype=dtype), torch.empty(n_rows)
    grid = (triton.cdiv(n_rows, block_rows),)
    turned[grid](x, out, top, n_rows, n_cols, ROWS=block_rows, COLS=block_cols)
    return out, top
