# %% title [markdown]
# # 05 · Triton in one dimension: exercises
#
# Five exercises, about 52 minutes. You need lesson 05. No GPU is needed: on a
# machine without one the kernels run in Triton's interpreter.
#
# Run a cell with Shift+Enter. `hint(vector_add)` gives a hint, three at most
# for each exercise. Every check draws new numbers each time.
#
# A kernel that is not begun holds `tl.static_assert(False, "not attempted")`, which stops
# while the kernel is *built*, before any program runs. The line goes when you write yours.

# %% imports
import torch
import triton
import triton.language as tl

from course_lib import check, hint, progress

# %% about-5-1 [markdown]
# ## 5.1 · The offsets of program 2 (3 minutes)
#
# A vector has `n = 44` numbers. A kernel is launched with three programs,
# numbered 0, 1 and 2, and with `BLOCK = 16`. Its first lines are:
#
# ```python
# pid = tl.program_id(0)
# offsets = pid * BLOCK + tl.arange(0, BLOCK)
# mask = offsets < n
# ```
#
# Look at program 2. Return three numbers, worked out on paper:
#
# 1. the first entry of its `offsets`,
# 2. the last entry of its `offsets`,
# 3. how many entries of its `mask` are true.


# %% ex-5-1
def offsets_of_program_2():
    """Return (first offset, last offset, how many pass the mask)."""
    ### BEGIN SOLUTION
    # 2 * 16 + [0, ..., 15] is 32, ..., 47; of these 32 to 43 are below 44
    return 32, 47, 12
    ### END SOLUTION


# %% check-5-1
check(offsets_of_program_2)

# %% about-5-2 [markdown]
# ## 5.2 · Add two vectors of any length (14 minutes)
#
# `vector_add(x, y)` returns `x + y`, computed by a kernel of yours: what is returned is what the
# kernel stored.
#
# - `x` and `y` have shape `(n,)`, float32, of any size; some may be infinite. `n` is 1 or more, and
#   the numbers lie one after the other.
# - One program adds one block of `BLOCK` numbers.
# - The last block may be short: no program may touch memory past the end.
# - The check also wants: any `block` that it chooses; each number of `x` and of `y` loaded once,
#   each sum stored once; work for every program, and not one program for everything.
#
# There are two blanks: the number of programs in the launcher, and the work
# of one program in the kernel. The launcher is the Python function that makes
# the result and starts the kernel.
#
# Example: `n = 5` and `block = 4` need two programs. Program 0 adds the
# offsets 0 to 3, program 1 adds offset 4.


# %% ex-5-2
@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    """One program: BLOCK entries of out = x + y. x, y, out: (n,)."""
    ### BEGIN SOLUTION
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # (BLOCK,)
    mask = offsets < n  # the last block may be short
    total = tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask)
    tl.store(out + offsets, total, mask=mask)
    ### END SOLUTION


def vector_add(x, y, *, block=64):
    """Return x + y as a new tensor. x, y: (n,) float32."""
    out = torch.empty_like(x)  # (n,), not yet written
    n = x.numel()
    ### BEGIN SOLUTION
    programs = triton.cdiv(n, block)  # n / block, rounded up
    ### END SOLUTION
    add_kernel[(programs,)](x, y, out, n, BLOCK=block)
    return out


# %% check-5-2
check(vector_add)

# %% about-5-3 [markdown]
# ## 5.3 · The softmax of each row (12 minutes)
#
# `row_softmax(x)` returns the softmax of each row of `x`.
#
# - `x` has shape `(n_rows, n_cols)`, float32. One program does one row.
# - The launcher takes the next power of two for the block (a larger one would do),
#   so it may be longer than the row: 37 scores sit in a block of 64. The other 27
#   places are empty.
# - The empty places must change nothing: neither the maximum nor the sum. (What a mask leaves out
#   is undefined, unless `other=` says what it is.)
# - Row `i` starts at `x + i * x_row`. `x_row` is the **row stride**: the
#   number of entries from the start of one row to the start of the next. It
#   can be larger than `n_cols`, when `x` is a part of a wider table. The
#   entries of one row are neighbours.
# - Every score is finite. Some rows hold only negative scores, some hold scores above 100
#   and far above. A row may hold a single score, or thousands.
# - The check also wants: each score loaded once (none again, not even the first of a row), each
#   weight stored once; `tl.max`, `tl.exp` and `tl.sum` written out, no `tl.softmax`.
#
# Example: the softmax of `[0, 0, log(2)]` is `[0.25, 0.25, 0.5]`.


# %% ex-5-3
@triton.jit
def softmax_kernel(x, out, n_cols, x_row, out_row, BLOCK: tl.constexpr):
    """One program: the softmax of one row. x, out: (n_rows, n_cols)."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)  # (BLOCK,), BLOCK >= n_cols
    ### BEGIN SOLUTION
    mask = cols < n_cols
    s = tl.load(x + row * x_row + cols, mask=mask, other=float("-inf"))
    p = tl.exp(s - tl.max(s, 0))  # (BLOCK,), 0 in the empty places
    tl.store(out + row * out_row + cols, p / tl.sum(p, 0), mask=mask)
    ### END SOLUTION


def row_softmax(x):
    """Return the softmax of each row. x: (n_rows, n_cols) float32."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(n_cols)
    x_row, out_row = x.stride(0), out.stride(0)
    softmax_kernel[(n_rows,)](x, out, n_cols, x_row, out_row, BLOCK=block)
    return out


# %% check-5-3
check(row_softmax)

# %% about-5-4 [markdown]
# ## 5.4 · The log-sum-exp of a long row (15 minutes)
#
# The **log-sum-exp** of a row is `log(sum(exp(x)))`, `log` being ln. A row can be longer than
# any block. So the program walks over it, block by block, and keeps two
# numbers: `m`, the largest score so far, and `l_sum`, the sum of
# `exp(score - m)` so far. This is lesson 03's walk.
#
# - `x` has shape `(n_rows, n_cols)`, float32; one program does one row.
# - Return shape `(n_rows,)`, float32: `m + log(l_sum)` of each row.
# - `n_cols` need not be a multiple of `block`: the last block may be short.
# - Scores are finite. They may lie near -150, near +100, or much farther from 0.
# - The check chooses `block`, and it counts: the row is walked once, so each
#   score is loaded once, in blocks of that size; each row's result is stored
#   once.
#
# Example: for the row `[1, 3, 2, 5]` and `block=2` the two blocks are the
# piles `[1, 3]` and `[2, 5]`. The walk ends with `m = 5`, `l_sum = 1.20344`,
# and the answer is `5.18518`.


# %% ex-5-4
@triton.jit
def logsumexp_kernel(x, out, n_cols, x_row, BLOCK: tl.constexpr):
    """One program: the log-sum-exp of one row. x: (n_rows, n_cols)."""
    row = tl.program_id(0)
    ### BEGIN SOLUTION
    m = float("-inf")  # the largest score so far
    l_sum = 0.0  # the sum of exp(score - m) so far
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)  # (BLOCK,)
        inside = cols < n_cols
        s = tl.load(x + row * x_row + cols, mask=inside, other=float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 0))
        alpha = tl.exp(m - m_new)  # old scale -> new scale
        l_sum = l_sum * alpha + tl.sum(tl.exp(s - m_new), 0)
        m = m_new
    tl.store(out + row, m + tl.log(l_sum))
    ### END SOLUTION


def long_logsumexp(x, *, block=64):
    """Return log(sum(exp(x))) of each row. x: (n_rows, n_cols) float32."""
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=x.dtype, device=x.device)
    logsumexp_kernel[(n_rows,)](x, out, n_cols, x.stride(0), BLOCK=block)
    return out


# %% check-5-4
check(long_logsumexp)

# %% about-5-5 [markdown]
# ## 5.5 · Hide scores in a tile of rows (8 minutes)
#
# Scores above a `limit` are not allowed. `allowed_scores(x, limit=limit)` returns two tensors:
#
# - `kept`, `(n_rows, n_cols)`: the scores of `x`; in place of one above the limit, −inf. A score
#   that equals the limit is allowed.
# - `top`, `(n_rows,)`: the largest allowed score of each row, −inf if there is none.
#
# `x` is float32 and finite, and its rows lie one after the other. `limit` may be infinite. One
# program does one *tile*: `block_rows` neighbouring rows, whole. The last tile may be short. As in 5.3, the program has room for
# `COLS` columns, a power of two, and a row may be shorter.
#
# Two tools are new. Lesson 07 hides keys and takes maxima with them:
#
# - `tl.where(condition, a, b)`: entry by entry, `a` where the condition holds, else `b`.
# - `tl.max(tile, 1)`: along axis 1, one number for each *row* of a tile. (Axis 0 would give one for
#   each column.)
#
# The tile's addresses and its mask are given: lesson 06 builds them. You write four lines:
# the load, the hiding, two stores. (The load needs `other=`, as in 5.3.)
#
# Example: `limit = 4` and the row `[1, 7, 4]` give `[1, -inf, 4]` and 4.
#
# - The check also wants: each score loaded once, each score of `kept` and each row's `top` stored
#   once; both by the kernel, not one of them made of the other.


# %% ex-5-5
@triton.jit
def allowed_kernel(
    x, kept, top, limit, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """One program: one tile of rows. x, kept: (n_rows, n_cols), top: (n_rows,)."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)  # (ROWS,)
    cols = tl.arange(0, COLS)  # (COLS,), COLS >= n_cols
    at = rows[:, None] * n_cols + cols[None, :]  # (ROWS, COLS): offsets
    inside = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # their mask
    ### BEGIN SOLUTION
    tile = tl.load(x + at, mask=inside, other=float("-inf"))
    tile = tl.where(tile <= limit, tile, float("-inf"))
    tl.store(kept + at, tile, mask=inside)
    tl.store(top + rows, tl.max(tile, 1), mask=rows < n_rows)
    ### END SOLUTION


def allowed_scores(x, *, limit, block_rows):
    """Return (kept, top). x: (n_rows, n_cols) float32, row after row."""
    n_rows, n_cols = x.shape
    kept = torch.empty_like(x)
    top = torch.empty(n_rows, dtype=x.dtype, device=x.device)
    cols = triton.next_power_of_2(n_cols)
    grid = (triton.cdiv(n_rows, block_rows),)
    allowed_kernel[grid](x, kept, top, limit, n_rows, n_cols, ROWS=block_rows, COLS=cols)
    return kept, top


# %% check-5-5
check(allowed_scores)

# %% progress
progress()
