# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def allowed_kernel(
    x, kept, top, limit, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, COLS)
    at = rows[:, None] * n_cols + cols[None, :]
    inside = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    tile = tl.load(x + at, mask=inside, other=float("-inf"))
    tile = tl.where(tile <= limit, tile, float("-inf"))
    tl.store(kept + at, tile, mask=inside)
    tl.store(top + rows, tl.max(tile, 1), mask=rows < n_rows)


def allowed_scores(x, *, limit, block_rows):
    n_rows, n_cols = x.shape
    kept = torch.empty_like(x)
    top = torch.empty(n_rows, dtype=x.dtype, device=x.device)
    cols = triton.next_power_of_2(n_cols)
    grid = (triton.cdiv(n_rows, block_rows),)
    allowed_kernel[grid](x, kept, top, limit, n_rows, n_cols, ROWS=block_rows, COLS=cols)
    return kept, top
