# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def load_tile(base, rows, cols, n_rows, n_cols, stride_row, stride_col):
    ptrs = base + rows[:, None] * stride_row + cols[None, :] * stride_col
    inside = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    return tl.load(ptrs, mask=inside, other=0.0)


@triton.jit
def store_tile(base, tile, rows, cols, n_rows, n_cols, stride_row, stride_col):
    at = base + rows[:, None] * stride_row + cols[None, :] * stride_col
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    tl.store(at, tile, mask=mask)


# given: nothing to write below this line
@triton.jit
def copy_kernel(
    x, out, full, n_rows, n_cols, full_cols, x_row, x_col, out_row, out_col,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) + tl.num_programs(0) * tl.arange(0, BLOCK_ROWS)
    cols = tl.program_id(1) + tl.num_programs(1) * tl.arange(0, BLOCK_COLS)
    tile = tl.trans(load_tile(x, cols, rows, n_cols, n_rows, x_col, x_row))
    tl.static_assert(tile.shape[0] == BLOCK_ROWS, "one tile row per entry of rows")
    tl.static_assert(tile.shape[1] == BLOCK_COLS, "one tile column per entry of cols")
    store_tile(out, tile, rows, cols, n_rows, n_cols, out_row, out_col)
    # so that what load_tile returns is seen as it is: full lies row after row, in whole tiles
    tl.store(full + rows[:, None] * full_cols + cols[None, :], tile)


def copy_tiles(x, *, block_rows, block_cols):
    n_rows, n_cols = x.shape
    grid = (triton.cdiv(n_rows, block_rows), triton.cdiv(n_cols, block_cols))
    out = torch.empty_like(x)
    full = x.new_empty((grid[0] * block_rows, grid[1] * block_cols))
    copy_kernel[grid](
        *(x, out, full, n_rows, n_cols, full.shape[1], *x.stride(), *out.stride()),
        BLOCK_ROWS=block_rows,
        BLOCK_COLS=block_cols,
    )
    return out, full
