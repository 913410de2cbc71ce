# %% title [markdown]
# # 06 · Triton in two dimensions: exercises
#
# Six exercises, about 76 minutes. You need lesson 06. No GPU is needed: on a
# machine without one the kernels run in Triton's interpreter, and the checks
# also compile them for a GPU.
#
# `hint(copy_tiles)` gives a hint, three at most for each exercise.

# %% imports
import torch
import triton
import triton.language as tl

from course_lib import check, hint, progress

# %% about-6-1 [markdown]
# ## 6.1 · Load and store a tile (15 minutes)
#
# Write two helpers; kernels of later lessons begin and end with such lines. You met them in 5.5,
# where rows lay one after the other: here there are strides.
#
# - `load_tile` returns the entries of a matrix at the given `rows` and
#   `cols`, as a tile of shape `(R, C)`. Entries past the last row or past the
#   last column are `0.0`.
# - `store_tile` writes a tile to the given `rows` and `cols`. It writes
#   nothing past the last row or the last column.
#
# Entry `(i, j)` of the matrix lies at `base + i * stride_row + j * stride_col`.
# Both strides can be anything, and `rows` and `cols` any numbers, in any order.
#
# Example: `rows = [4, 5]`, `cols = [0, 1]`, `stride_row = 10`,
# `stride_col = 1`. The tile holds the entries at `base +` 40, 41 and 50, 51.
#
# The launcher `copy_tiles` is given. It makes two copies of what `load_tile` returns: one of the
# size of `x`, by `store_tile`, and one that is filled up with zeros to whole tiles. You need not
# read it: your helpers see only `rows`, `cols` and strides.
#
# - The check also wants: each tile loaded once, and stored once in each copy; entries copied as
#   they are, `inf` and NaN too. The `rows` that it asks for are no neighbours (0, 3, 6 and 9, say).
#   One matrix is a transposed view: there `stride_row` is 1. In another all rows are the same
#   memory (PyTorch's `expand()` repeats a row without a copy): there it is 0. The launcher gives the
#   kernel `x` itself, and returns what the kernel stores as it is.


# %% ex-6-1
@triton.jit
def load_tile(base, rows, cols, n_rows, n_cols, stride_row, stride_col):
    """Return the tile (R, C) at rows (R,) and cols (C,); 0.0 past the ends.

    base points to entry (0, 0) of a matrix (n_rows, n_cols).
    """
    ### BEGIN SOLUTION
    ptrs = base + rows[:, None] * stride_row + cols[None, :] * stride_col
    inside = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # (R, C)
    return tl.load(ptrs, mask=inside, other=0.0)
    ### END SOLUTION


@triton.jit
def store_tile(base, tile, rows, cols, n_rows, n_cols, stride_row, stride_col):
    """Store tile (R, C) at rows (R,) and cols (C,); nothing past the ends."""
    ### BEGIN SOLUTION
    ptrs = base + rows[:, None] * stride_row + cols[None, :] * stride_col
    inside = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # (R, C)
    tl.store(ptrs, tile, mask=inside)
    ### END SOLUTION


# given: nothing to write below this line
@triton.jit
def copy_kernel(
    x, out, full, n_rows, n_cols, full_cols, x_row, x_col, out_row, out_col,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):
    """One program: one tile of x, stored into out and into full."""
    # the tile's rows are no neighbours, and its columns neither
    rows = tl.program_id(0) + tl.num_programs(0) * tl.arange(0, BLOCK_ROWS)
    cols = tl.program_id(1) + tl.num_programs(1) * tl.arange(0, BLOCK_COLS)
    # x is read through its transposed view: rows and columns change places
    tile = tl.trans(load_tile(x, cols, rows, n_cols, n_rows, x_col, x_row))
    tl.static_assert(tile.shape[0] == BLOCK_ROWS, "one tile row per entry of rows")
    tl.static_assert(tile.shape[1] == BLOCK_COLS, "one tile column per entry of cols")
    store_tile(out, tile, rows, cols, n_rows, n_cols, out_row, out_col)
    # so that what load_tile returns is seen as it is: full lies row after row, in whole tiles
    tl.store(full + rows[:, None] * full_cols + cols[None, :], tile)


def copy_tiles(x, *, block_rows, block_cols):
    """Return (copy of x, copy filled up with zeros to whole tiles).

    x: (n_rows, n_cols), any strides.
    """
    n_rows, n_cols = x.shape
    grid = (triton.cdiv(n_rows, block_rows), triton.cdiv(n_cols, block_cols))
    out = torch.empty_like(x)  # in memory as x: transposed if x is a transposed view
    full = x.new_empty((grid[0] * block_rows, grid[1] * block_cols))
    copy_kernel[grid](
        *(x, out, full, n_rows, n_cols, full.shape[1], *x.stride(), *out.stride()),
        BLOCK_ROWS=block_rows,
        BLOCK_COLS=block_cols,
    )
    return out, full


# %% check-6-1
check(copy_tiles)

# %% about-6-2 [markdown]
# ## 6.2 · One tile of scores (11 minutes)
#
# `tile_scores(q, k)` returns `q @ k.T`, computed by one program with one
# `tl.dot`.
#
# - `q` has shape `(block_q, d)`, `k` has shape `(block_k, d)`. All three sizes
#   are powers of two, at least 16.
# - The result has shape `(block_q, block_k)`, float32. There is no division
#   by the square root of `d` here.
# - The two tiles are loaded already, the launcher is given. You write the product and the store.
# - `q` and `k` are float32 or float16, perhaps one of each. `tl.dot` takes two tiles of one
#   dtype: convert the q tile to the k tile's dtype first, as p to v's in the
#   lesson (or both to float32). Never round a float32 `k`.
# - Ask for `input_precision="ieee"`. Without it a GPU rounds float32 inputs to
#   TF32, and the check says so. (`"tf32x3"` is as exact.)
# - The check counts: `q` and `k` are loaded once, each score is stored once,
#   and there is one `tl.dot`, of the whole tiles.
#
# Scores can be larger than 65504, the largest float16 number.


# %% ex-6-2
@triton.jit
def scores_kernel(
    q, k, out, q_row, q_col, k_row, k_col, out_row, out_col,
    D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One program: out = q @ k.T. q: (block_q, d), k: (block_k, d)."""
    rows = tl.arange(0, BLOCK_Q)  # (block_q,)
    keys = tl.arange(0, BLOCK_K)  # (block_k,)
    dims = tl.arange(0, D)  # (d,)
    q_tile = tl.load(q + rows[:, None] * q_row + dims[None, :] * q_col)
    k_tile = tl.load(k + keys[:, None] * k_row + dims[None, :] * k_col)
    ### BEGIN SOLUTION
    q_tile = q_tile.to(k_tile.dtype)  # tl.dot wants one dtype
    s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
    # s: (block_q, block_k), float32
    tl.store(out + rows[:, None] * out_row + keys[None, :] * out_col, s)
    ### END SOLUTION


def tile_scores(q, k):
    """Return q @ k.T in float32. q: (block_q, d), k: (block_k, d)."""
    (block_q, d), block_k = q.shape, k.shape[0]
    out = torch.empty(block_q, block_k, dtype=torch.float32, device=q.device)
    scores_kernel[(1,)](
        *(q, k, out, *q.stride(), *k.stride(), *out.stride()),
        D=d,
        BLOCK_Q=block_q,
        BLOCK_K=block_k,
    )
    return out


# %% check-6-2
check(tile_scores)

# %% about-6-3 [markdown]
# ## 6.3 · A matrix product, tile by tile (18 minutes)
#
# `matmul(a, b)` returns `a @ b`, a float32 tensor, whatever the inputs' dtype.
#
# - `a` has shape `(m, k)`, `b` has shape `(k, n)`: float32 or float16, any
#   strides, any sizes.
# - A program makes one tile of the result, `(block_m, block_n)`, or several, one
#   after the other. For each it walks along `k` in steps of `block_k` and adds up
#   the products in an **accumulator**, a float32 tile that is carried from step to
#   step.
# - `m`, `n` and `k` need not be multiples of the tiles. Entries past the end of
#   `k` must add nothing, not NaN either where `a` and `b` hold infinite numbers.
# - float32 inputs are multiplied as float32: `input_precision="ieee"`, as in
#   6.2. (For float16 inputs it makes no difference.)
# - The check chooses the three tile sizes, and it counts: a tile of `a` and one
#   of `b` are loaded once in each step, `tl.dot` multiplies them, the result is stored
#   once.
#
# You write the accumulator's start and the loop. The final store and the launcher are given. (A
# launcher may copy its inputs, into whole tiles say: what is counted is the kernel's work.)


# %% ex-6-3
@triton.jit
def matmul_kernel(
    a, b, out, m, n, k, a_row, a_col, b_row, b_col, out_row, out_col,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One program: one tile of out = a @ b. a: (m, k), b: (k, n)."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)  # (block_m,)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)  # (block_n,)
    ### BEGIN SOLUTION
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)  # a typed start
    for start in range(0, k, BLOCK_K):
        steps = start + tl.arange(0, BLOCK_K)  # (block_k,)
        a_ptrs = a + rows[:, None] * a_row + steps[None, :] * a_col
        b_ptrs = b + steps[:, None] * b_row + cols[None, :] * b_col
        a_inside = (rows[:, None] < m) & (steps[None, :] < k)
        b_inside = (steps[:, None] < k) & (cols[None, :] < n)
        a_tile = tl.load(a_ptrs, mask=a_inside, other=0.0)
        b_tile = tl.load(b_ptrs, mask=b_inside, other=0.0)
        acc += tl.dot(a_tile, b_tile, input_precision="ieee")
    ### END SOLUTION
    out_ptrs = out + rows[:, None] * out_row + cols[None, :] * out_col
    tl.store(out_ptrs, acc, mask=(rows[:, None] < m) & (cols[None, :] < n))


def matmul(a, b, *, block_m, block_n, block_k):
    """Return a @ b in float32. a: (m, k), b: (k, n), one dtype."""
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


# %% check-6-3
check(matmul)

# %% about-6-4 [markdown]
# ## 6.4 · Five kernels, all green here (13 minutes)
#
# Read the five kernels below and run the cell after them: in the interpreter
# each one gives the right answer.


# %% five-kernels
@triton.jit
def biggest_kernel(x, out, n, BLOCK: tl.constexpr):
    m = float("-inf")
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        m = tl.maximum(m, tl.load(x + at, mask=at < n, other=float("-inf")))
    tl.store(out, tl.max(m, 0))


@triton.jit
def first_part_kernel(x, out, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        block = tl.load(x + at, mask=at < n, other=0.0)
        if tl.min(block, 0) < 0:  # stop at the first block with a negative
            break
        acc += block
    tl.store(out, tl.sum(acc, 0))


@triton.jit
def small_dot_kernel(a, out, M: tl.constexpr, K: tl.constexpr):
    rows = tl.arange(0, M)
    cols = tl.arange(0, K)
    tile = tl.load(a + rows[:, None] * K + cols[None, :])  # (M, K)
    s = tl.dot(tile, tl.trans(tile), input_precision="ieee")
    tl.store(out + rows[:, None] * M + rows[None, :], s)


@triton.jit
def total_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0)
    tl.store(out, tl.load(out) + part)


@triton.jit
def centred_kernel(x, out, n, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, n, BLOCK):  # every program reads all of x
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, own - total / n, mask=at < n)


def biggest(x):
    """Return the largest entry of x, (n,), as a tensor (1,). One program."""
    out = torch.zeros(1, device=x.device)
    biggest_kernel[(1,)](x, out, x.numel(), BLOCK=64)
    return out


def first_part(x):
    """Return the sum of the blocks before the first with a negative entry."""
    out = torch.zeros(1, device=x.device)
    first_part_kernel[(1,)](x, out, x.numel(), BLOCK=64)
    return out


def small_dot(a):
    """Return a @ a.T. a: (16, 8). One program."""
    out = torch.zeros(a.shape[0], a.shape[0], device=a.device)
    small_dot_kernel[(1,)](a, out, M=a.shape[0], K=a.shape[1])
    return out


def total(x):
    """Return the sum of x, (n,), as a tensor (1,). One program per block."""
    out = torch.zeros(1, device=x.device)
    total_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def centred(x):
    """Return x - mean(x), (n,). One program per block."""
    out = torch.zeros_like(x)
    centred_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


# %% all-green
numbers, small = torch.rand(200) + 0.5, torch.randn(16, 8)
if torch.cuda.is_available():
    print("This machine compiles: read the kernels, do not run them.")
else:
    for name, got, wanted in [
        ("biggest", biggest(numbers), numbers.max()),
        ("first_part", first_part(numbers), numbers.sum()),
        ("small_dot", small_dot(small), small @ small.T),
        ("total", total(numbers), numbers.sum()),
        ("centred", centred(numbers), numbers - numbers.mean()),
    ]:
        right = torch.allclose(got, wanted, rtol=1e-4, atol=1e-4)
        print(f"{name:12}", "green" if right else "wrong")

# %% about-6-4a [markdown]
# **6.4a.** What happens to each on a GPU? Return a dict with the five
# launchers' names, and for each one of these three texts:
#
# - `"fine"`: it compiles, and the answer is always right,
# - `"does not compile"`: the compiler refuses it,
# - `"races"`: it compiles, but the answer depends on the order in which the
#   programs happen to run.


# %% ex-6-4a
def which_fail_on_a_gpu():
    """Return {launcher's name: "fine", "does not compile" or "races"}."""
    ### BEGIN SOLUTION
    return {
        "biggest": "does not compile",  # m starts as a scalar, ends as a block
        "first_part": "does not compile",  # break
        "small_dot": "does not compile",  # K is 8, and 16 is the least
        "total": "races",  # load, add, store: another program may come between
        "centred": "fine",  # reading together is no race; total stays a scalar
    }
    ### END SOLUTION


# %% check-6-4a
check(which_fail_on_a_gpu)

# %% about-6-4b [markdown]
# **6.4b.** `total` gives the right sum only if its programs run one after the
# other. Mend it: `mended_total(x)` returns the sum of `x` (one number at least, one
# after the other), shape `(1,)`, float32, whatever the order of the programs.
#
# Keep many programs: each adds up one block, or several blocks, one after the other. There may be
# thousands of blocks. You may change anything in this cell, the launcher too: each way in
# which no two programs race is right.
#
# - The check also wants: any `block` that it chooses; not one program for nearly everything; each
#   number of `x` loaded once, by one program; no lock of your own, which other programs wait for
#   (whether it holds on a GPU cannot be tried here). To try `tl.atomic_cas` again until it succeeds
#   is no lock.


# %% ex-6-4b
@triton.jit
def mended_kernel(x, out, n, BLOCK: tl.constexpr):
    """One program: the sum of one block of x, (n,)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # (BLOCK,)
    part = tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0)
    ### BEGIN SOLUTION
    tl.atomic_add(out, part)
    ### END SOLUTION


def mended_total(x, *, block=64):
    """Return the sum of x as a tensor (1,). x: (n,) float32."""
    n = x.numel()
    out = torch.zeros(1, dtype=torch.float32, device=x.device)
    mended_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
    return out


# %% check-6-4b
check(mended_total)

# %% about-6-5 [markdown]
# ## 6.5 · Up the stairs, and turned round (19 minutes)
#
# A variation of the lesson's stairs, with another rule: **row `i` sees the columns
# `j <= 2 * i + 1`**. So row 0 sees two columns, and each row two more than the row above.
# `turned_stairs` returns two tensors:
#
# - `out`, `(n_cols, n_rows)`: `x` transposed, −inf where the row of `x` does not see, even if `x`
#   is `inf` or NaN there. float16 if `half` is true, else float32. The launcher fills it with −inf: what
#   nobody sees is right already, and need not be stored.
# - `top`, `(n_rows,)`, float32: for each row of `x` the largest number *that was stored in `out`*.
#
# `x` is float32, its rows one after the other. A program owns `ROWS` rows and walks over the
# columns, `COLS` at a time. You write five lines (step 3 is two of them):
#
# 1. The first line stops the build, with `tl.static_assert`, unless `COLS` is at most `2 * ROWS`.
#    (A wider tile holds columns that no row of program 0 sees.)
# 2. `end`, the first column that *no* row of this tile sees, and never more than `n_cols`. The
#    smaller of two numbers is `tl.minimum`. The last row of a tile sees furthest.
# 3. In the loop: the condition and `tl.where`, then the cast to `out`'s own type. Call the result
#    `kept`: the given line below takes its maximum.
# 4. The store, turned round: `tl.trans`, of the tile and of its mask.
#
# Example: with `ROWS = 4` program 0 owns rows 0 to 3. Row 3 sees columns 0 to 7, so `end` is 8. In
# program 1 it is 16, if there are so many columns.
#
# A short last tile may have the `end` of a whole one: with 6 rows program 1 owns rows 4 to 7, of
# which two are missing, and its `end` may be 16 all the same.
#
# - The check also wants: any `ROWS` and `COLS` that it chooses, with sizes that are no multiples of
#   them, and pairs that must not be built; each tile of `x` that begins before `end` loaded once
#   and stored once in `out`, no other loaded; `top` stored once. The kernel is given `x` itself, and
#   PyTorch turns nothing: what the kernel stores is returned as it is.


# %% ex-6-5
@triton.jit
def turned_kernel(
    x, out, top, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr,
):
    """One program: a tile of rows. x: (n_rows, n_cols), out: (n_cols, n_rows)."""
    ### BEGIN SOLUTION
    tl.static_assert(COLS <= 2 * ROWS, "a tile is wider than the first stairs")
    ### END SOLUTION
    tile = tl.program_id(0)
    rows = tile * ROWS + tl.arange(0, ROWS)  # (ROWS,)
    m = tl.full((ROWS,), float("-inf"), tl.float32)  # the largest so far
    ### BEGIN SOLUTION
    end = tl.minimum(n_cols, 2 * (tile + 1) * ROWS)
    ### END SOLUTION
    for start in range(0, end, COLS):
        cols = start + tl.arange(0, COLS)  # (COLS,)
        inside = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        x_ptrs = x + rows[:, None] * n_cols + cols[None, :]
        x_tile = tl.load(x_ptrs, mask=inside, other=float("-inf"))
        out_ptrs = out + cols[:, None] * n_rows + rows[None, :]  # (COLS, ROWS)
        ### BEGIN SOLUTION
        sees = cols[None, :] <= 2 * rows[:, None] + 1  # (ROWS, COLS)
        kept = tl.where(sees, x_tile, float("-inf")).to(out.dtype.element_ty)
        tl.store(out_ptrs, tl.trans(kept), mask=tl.trans(inside))
        ### END SOLUTION
        m = tl.maximum(m, tl.max(kept, 1))  # given: of what is stored
    tl.store(top + rows, m, mask=rows < n_rows)


def turned_stairs(x, *, half, block_rows, block_cols):
    """Return (out, top). x: (n_rows, n_cols) float32, row after row."""
    n_rows, n_cols = x.shape
    dtype = torch.float16 if half else torch.float32
    out = torch.full((n_cols, n_rows), float("-inf"), dtype=dtype, device=x.device)
    top = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(n_rows, block_rows),)
    turned_kernel[grid](x, out, top, n_rows, n_cols, ROWS=block_rows, COLS=block_cols)
    return out, top


# %% check-6-5
check(turned_stairs)

# %% progress
progress()
