# %% title [markdown]
# # 06 · Triton in two dimensions
#
# **You need:** lesson 05 (programs, offsets, masks, `other`; of 5.5 `tl.where` and `tl.max`).
# (On macOS and Windows there is no compiler: you see what it said elsewhere.)
#
# **You will be able to:** build the addresses of a tile from two strides; read a
# transposed matrix without moving it; multiply two tiles with `tl.dot` in the
# right dtype; carry an accumulator through a loop; say which kernels work in
# the interpreter and fail on a GPU, and why.
#
# **Time:** 50 minutes for this lesson, 76 for its six exercises.

# %% question [markdown]
# ## The question
#
# FlashAttention works on **tiles**: a block of rows and columns of a matrix. In
# memory there are no rows and columns. There is one long line of numbers.
#
# **How does a program pick a tile out of that line, how does it multiply two
# tiles, and how far can you trust a kernel that is green in the interpreter?**

# %% imports
import numpy as np
import torch
import triton
import triton.language as tl

from course_lib import Predict, Quiz, count
from course_lib.child.compile_check import compile_for
from course_lib.accounting.kernel_ledger import LedgerUnavailable
from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.races import RaceLedger

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% picture [markdown]
# ## The picture: a street and a house number
#
# Street 0 has the house numbers 0 to 9, street 1 has 10 to 19, and so on. To find the house
# in street 2, place 5, you need no map: 2 · 10 + 5 = 25.
#
# A matrix lies in memory in the same way. Its **strides** say how far apart things are, in
# entries:
#
# - `stride_row`: from one row to the next. Here 10.
# - `stride_col`: from one column to the next. Here 1.
#
# address of entry (i, j) = base + i · stride_row + j · stride_col
#
# `base` is the address of entry (0, 0).
#
# ## A number by hand
#
# Take the tile with rows [1, 2] and columns [3, 4, 5, 6]. Write the row part as
# a column of numbers and the column part as a row of numbers. Then add: every
# pair meets once. This is **broadcasting**.

# %% draw-addresses
# @title A picture: two small tables that add up to addresses
from course_lib.figures.blocks import draw_addresses

draw_addresses(np.array([1, 2]), np.array([3, 4, 5, 6]), stride=10)


# %% by-hand-code [markdown]
# `[:, None]` turns a block of length R into shape (R, 1), a column.
# `[None, :]` turns a block of length C into shape (1, C), a row. The sum has
# shape (R, C). The same in NumPy, on a matrix whose entries are their own
# addresses:

# %% numpy-tile
memory = np.arange(60)  # one long line of numbers
matrix = memory.reshape(6, 10)  # 6 streets of 10 houses

rows, cols = np.array([1, 2]), np.array([3, 4, 5, 6])
at = rows[:, None] * 10 + cols[None, :] * 1  # (2, 4)
print(memory[at])
print("the same as slicing:", np.array_equal(memory[at], matrix[1:3, 3:7]))

# %% strides [markdown]
# ## Transposed, without moving a number
#
# `matrix.T` has shape (10, 6). No number has moved. Only the strides have
# changed places: to the next *row* of the transpose it is 1, to the next
# *column* it is 10.

# %% predict-strides
p_strides = Predict(
    "6-strides",
    "Entry (7, 2) of `matrix.T`: at which address does it lie?",
)
p_strides

# %% run-strides
matrix = torch.arange(60).reshape(6, 10)
print("strides of matrix  ", matrix.stride())
print("strides of matrix.T", matrix.T.stride())
print("entry (7, 2) of matrix.T:", matrix.T[7, 2].item())

# %% reveal-strides
p_strides.reveal(
    matrix.T[7, 2].item(),
    "7 * 1 + 2 * 10. The memory is `row-major`: rows lie one after the other. "
    "Seen through matrix.T it is `column-major`.",
)

# %% tile-kernel-say [markdown]
# ## The code: a tile in Triton
#
# This kernel takes each tile of `x` to its place in `out`, whatever their
# strides. There are two numbers of programs now, one for tile rows and one for
# tile columns: `tl.program_id(0)` and `tl.program_id(1)`.


# %% tile-kernel
@triton.jit
def copy_kernel(
    x, out, n_rows, n_cols, x_row, x_col, out_row, out_col, ROWS: tl.constexpr, COLS: tl.constexpr
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)  # (ROWS,)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)  # (COLS,)
    inside = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x_ptrs = x + rows[:, None] * x_row + cols[None, :] * x_col
    tile = tl.load(x_ptrs, mask=inside, other=0.0)  # (ROWS, COLS)
    out_ptrs = out + rows[:, None] * out_row + cols[None, :] * out_col
    tl.store(out_ptrs, tile, mask=inside)


def contiguous(x, *, tile=(16, 8)):
    """Return a row-major copy of x. x: (n_rows, n_cols), any strides."""
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, n_cols, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(n_rows, tile[0]), triton.cdiv(n_cols, tile[1]))
    strides = (*x.stride(), *out.stride())
    rows, cols = tile
    copy_kernel[grid](x, out, n_rows, n_cols, *strides, ROWS=rows, COLS=cols)
    return out


# %% run-tile-kernel
turned = torch.randn(21, 37, device=device).T  # (37, 21), a transposed view
print("equal:", torch.equal(contiguous(turned), turned))
print("strides", turned.stride(), "->", contiguous(turned).stride())

# %% mask-2d [markdown]
# The mask has two parts, joined with `&`: this row exists *and* this column
# exists. (The brackets are needed, for `&` binds closer than `<`; Python's `and` does not do
# it.) 37 × 21 in tiles of 16 × 8 is short on both sides. As in lesson 05, masked
# places cost nothing:

# %% run-bytes
print("bytes loaded:", count(contiguous, turned).read["x"], "of 37 * 21 * 4 =", 37 * 21 * 4)

# %% forgotten-mask [markdown]
# ## A mistake that a guard band can miss
#
# Forget the column half of the mask in a row-major matrix. The place after the
# end of a row is not outside the tensor. It is the **start of the next row**.
# Below, the tile is to hold the first 2 of 3 rows, so that there is always a next one.


# %% half-mask
@triton.jit
def half_mask_kernel(x, out, n_rows, n_cols, SIZE: tl.constexpr):
    rows, cols = tl.arange(0, SIZE), tl.arange(0, SIZE)
    ptrs = x + rows[:, None] * n_cols + cols[None, :]
    tile = tl.load(ptrs, mask=rows[:, None] < n_rows, other=0.0)
    tl.store(out + rows[:, None] * SIZE + cols[None, :], tile)


def half_mask(x):
    out = torch.empty(4, 4, device=x.device)
    half_mask_kernel[(1,)](x, out, 2, 3, SIZE=4)
    return out


x = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]], device=device)
print("the first two of three rows, in a tile of 4 x 4:")
print(half_mask(x))
print("no complaint:", count(half_mask, x).read["x"], "bytes loaded, 2 * 3 * 4 =", 2 * 3 * 4)

# %% half-mask-say [markdown]
# The fourth column should hold zeros only. It holds 4 and 7, real numbers from the
# wrong place. No address was outside the tensor (in the last row one would be, and the ledger would
# stop); the number of bytes gives it away. So the checks look at addresses, bytes *and* values, with tiles that are short
# on both sides.
#
# In exercise 6.1 you put these lines into two helpers, `load_tile` and `store_tile`: functions
# with `@triton.jit` that a kernel calls, and that may `return` a tile.

# %% quiz-hardcoded
Quiz(
    "A kernel computes `base + rows[:, None] * n_cols + cols[None, :]`. For "
    "which matrices is it right?",
    options=[
        ("for all", False, "It assumes stride_row = n_cols and stride_col = 1."),
        ("for row-major ones without gaps", True, "Exactly there the strides are n_cols and 1."),
        ("for a transposed view", False, "There stride_row is 1."),
        ("for a part of a wider table", False, "There stride_row is the wider table's width."),
    ],
)

# %% dot [markdown]
# ## Multiplying tiles: `tl.dot`
#
# `tl.dot(a, b)` is the matrix product of two tiles: (M, K) times (K, N) gives
# (M, N). The inner size, in both, is called K in any product (not the keys), and must be
# at least 16 for the types of this course's kernels, float16, bfloat16 and float32.
#
# **What is a tensor core?** It is a part of the GPU that multiplies two small
# matrices and adds the result to a third, in one instruction. `tl.dot` is how Triton reaches it.
# Our dtypes follow a pattern: **16 bits in, 32 bits out.** The inputs are small and many, the
# sums need room.
#
# Here is one tile of attention's second product: weights times values.


# %% pv-kernel
@triton.jit
def pv_kernel(p, v, out, ROWS: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr):
    rows, keys, dims = tl.arange(0, ROWS), tl.arange(0, KEYS), tl.arange(0, D)
    p_tile = tl.load(p + rows[:, None] * KEYS + keys[None, :])  # (ROWS, KEYS)
    v_tile = tl.load(v + keys[:, None] * D + dims[None, :])  # (KEYS, D)
    o = tl.dot(p_tile, v_tile)  # (ROWS, D), float32
    tl.store(out + rows[:, None] * D + dims[None, :], o)


def weighted_values(p, v):
    """Return p @ v in float32. p: (block_q, block_k), v: (block_k, d)"""
    (block_q, block_k), d = p.shape, v.shape[1]
    out = torch.empty(block_q, d, device=p.device)
    pv_kernel[(1,)](p, v, out, ROWS=block_q, KEYS=block_k, D=d)
    return out


p = torch.softmax(torch.randn(32, 16, device=device), dim=1)
v = torch.randn(16, 64, device=device).half()
o = weighted_values(p.half(), v)
print(o.dtype, tuple(o.shape))

# %% dtype-say [markdown]
# ## Two dtypes in one product
#
# In a kernel the weights p come out of `tl.exp` and are float32. The values v
# come from memory and are float16.

# %% predict-mixed
p_mixed = Predict(
    "6-mixed",
    "p is float32 and v is float16. What does `tl.dot(p, v)` do?",
    options=["it converts v to float32", "it converts p to float16", "it refuses"],
)
p_mixed

# %% run-mixed
try:
    weighted_values(p, v)
    print("it ran")
except Exception as error:
    while error.__cause__ is not None:
        error = error.__cause__
    print(type(error).__name__, "-", str(error).splitlines()[-1])

# %% reveal-mixed
p_mixed.reveal(
    "it refuses",
    "Which rounding you want is for you to say: `p_tile.to(v_tile.dtype)`. (The dtype of a tile; "
    "`v` is a pointer.) FlashAttention rounds p to v's dtype in each step; m, l and the "
    "accumulator stay float32.",
)

# %% transpose-trap [markdown]
# ## A transpose that is missing, and nobody notices
#
# Scores are q times k *transposed*: (block_q, d) times (d, block_k). In Triton
# `tl.trans(k_tile)` is the transposed tile. Without it the shapes do not fit, and
# Triton says so. Except in one case, which is the same in NumPy:

# %% transpose-numbers
rng = np.random.default_rng(0)
for block_k, d in [(32, 64), (32, 32)]:
    q, k = rng.normal(size=(16, d)), rng.normal(size=(block_k, d))
    try:
        error = np.abs(q @ k - q @ k.T).max()
        print(f"block_k = {block_k}, d = {d}: no error, off by {error:.1f}")
    except ValueError:
        print(f"block_k = {block_k}, d = {d}: the shapes do not fit")

# %% transpose-say [markdown]
# When block_k equals d, everything fits and the numbers are wrong. That is why
# the checks use tiles in which all sizes differ, and one in which they do not.
#
# ## Is a float32 product exact? TF32
#
# A float32 number has 23 bits after the leading one, its **mantissa**. That is
# about seven digits. Tensor cores do not take float32. They take **TF32**: the
# same range, with a mantissa of 10 bits, about three digits. On a GPU
# (A100 and newer) a float32 `tl.dot` uses TF32 unless you forbid it. The interpreter computes
# in full float32, so it cannot show this.


# %% predict-tf32
p_tf32 = Predict(
    "6-tf32",
    "64 x 64 scores from q and k with d = 64, float32, normal random numbers. "
    "The largest error of a float32 product is about 0.00001. With TF32?",
    options=["about 0.00001", "about 0.0002", "about 0.02"],
)
p_tf32


# %% tf32-measure folded=true
# @title TF32 on a GPU, or what an H100 gave
@triton.jit
def qk_kernel(q, k, out, N: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    k_t = tl.trans(tl.load(k + at))
    s = tl.dot(tl.load(q + at), k_t, input_precision=HOW)
    tl.store(out + at, s)


if device == "cuda":
    torch.manual_seed(0)
    q, k = torch.randn(2, 64, 64, device=device)
    for precision in ("tf32", "ieee"):
        out = torch.empty(64, 64, device=device)
        qk_kernel[(1,)](q, k, out, N=64, HOW=precision)
        error = (out - q.double() @ k.double().T).abs().max().item()
        print(f"{precision}: largest error {error:.6f}")
else:
    recorded = load_measurements("h100_ceilings")
    print("recorded on an", recorded["device"])
    for precision in ("tf32", "ieee"):
        print(f"{precision}: largest error {recorded['dot_errors'][precision]:.6f}")

# %% reveal-tf32
p_tf32.reveal(
    "about 0.02",
    "Three digits in, three digits out. For one score, about sqrt(64) = 8 in size, that is "
    "little; for a claim of float32 accuracy it is far too much.",
)

# %% tf32-rule [markdown]
# **The rule of this course:** where float32 accuracy is claimed, write
# `tl.dot(a, b, input_precision="ieee")`. For float16 inputs it changes nothing. (The optional end
# of this lesson makes TF32 by hand.)

# %% tools [markdown]
# ## Some small tools
#
# `tl.where` and `tl.max(tile, 1)` you know from 5.5. The maximum is a vector; `[:, None]` makes
# it a column that a tile can meet. Three more, which you write in 6.5:
#
# - `tl.minimum(a, b)`: the smaller of two, element by element (`tl.min` finds the smallest number in a tile).
# - `out.dtype.element_ty`: the type of what a pointer points to, to convert a tile to.
# - `tl.static_assert(condition, "words")` stops while the kernel is built, unless it holds.
#
# All of them in one kernel: row i may see columns 0 to i + 2, and none from n = 5 on. Every row
# of x is 0, 1, ..., 7, so the largest number that a row sees is the last column that it sees.


# %% tools-kernel
@triton.jit
def stairs_kernel(x, top, out, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    tl.static_assert(ROWS <= COLS, "more rows than columns")
    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLS)
    at = rows[:, None] * COLS + cols[None, :]  # (rows, cols)
    tile = tl.load(x + at)
    last = tl.minimum(rows + 2, n - 1)  # (rows,): the last column that each row sees
    tile = tl.where(cols[None, :] <= last[:, None], tile, float("-inf"))
    m = tl.max(tile, 1)  # (rows,)
    tl.store(top + rows, m)
    tl.store(out + at, tl.exp(tile - m[:, None]).to(out.dtype.element_ty))


# %% run-tools
x = torch.arange(8.0, device=device).repeat(4, 1)
top, out = torch.empty(4, device=device), torch.empty(4, 8, device=device, dtype=torch.float16)
stairs_kernel[(1,)](x, top, out, 5, ROWS=4, COLS=8)
print("the last column that rows 0 to 3 see:", top.tolist(), " out:", out.dtype)

# %% accumulator [markdown]
# *A good place for a break.*
#
# ## A loop that carries a tile
#
# A product of large matrices does not fit into one `tl.dot`. A program walks
# along the inner size and adds up: `acc += tl.dot(...)`. The value `acc` is
# **carried** from step to step.
#
# Here is a small example, the column sums of a tall matrix, written twice. One line differs.


# %% two-kernels
@triton.jit
def kernel_a(x, out, n_rows, ROWS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.arange(0, COLS)
    acc = 0.0
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        ptrs = x + rows[:, None] * COLS + cols[None, :]
        tile = tl.load(ptrs, mask=rows[:, None] < n_rows, other=0.0)
        acc += tl.sum(tile, 0)
    tl.store(out + cols, acc)


@triton.jit
def kernel_b(x, out, n_rows, ROWS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.arange(0, COLS)
    acc = tl.zeros((COLS,), tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        ptrs = x + rows[:, None] * COLS + cols[None, :]
        tile = tl.load(ptrs, mask=rows[:, None] < n_rows, other=0.0)
        acc += tl.sum(tile, 0)
    tl.store(out + cols, acc)


# %% column-sums
def sums_a(x):
    """Return the sum of each column, (n_cols,). x: (n_rows, n_cols)"""
    out = torch.empty(x.shape[1], device=x.device)
    kernel_a[(1,)](x, out, x.shape[0], ROWS=16, COLS=x.shape[1])
    return out


def sums_b(x):
    """Return the same, by the other kernel."""
    out = torch.empty(x.shape[1], device=x.device)
    kernel_b[(1,)](x, out, x.shape[0], ROWS=16, COLS=x.shape[1])
    return out


x = torch.randn(50, 32, device=device)
if device == "cpu":
    for sums in (sums_a, sums_b):
        print(sums.__name__, (sums(x) - x.sum(0)).abs().max().item())

# %% predict-sums
p_sums = Predict(
    "6-sums",
    "Both are right in the interpreter. Which of them compile for a GPU?",
    options=["both", "only `sums_a`", "only `sums_b`", "neither"],
)
p_sums

# %% compile-check [markdown]
# ## The instrument: a compiler that needs no GPU
#
# `compile_for` compiles a launcher's kernels for a GPU, in a process of its own,
# on a machine that has no GPU. Like the checks it does so for `sm_80`, NVIDIA's name for the A100.
# It takes about 8 seconds.

# %% run-compile
for sums in (sums_a, sums_b):
    report = compile_for(sums, x.cpu())
    print(f"{sums.__name__}: {'compiles' if report.ok else 'does not compile'}")
    if not report.ok:
        print("  ", report.message, "\n")

# %% reveal-sums
p_sums.reveal(
    "only `sums_b`",
    "In `kernel_a` acc starts as a float and becomes a block. Python does not mind. A "
    "compiled loop cannot change the type of a value half-way.",
)

# %% what-fails [markdown]
# A carried value has a **type**: its dtype and its shape. In Python a variable
# may change its type at any time. In a compiled loop it may not: the machine
# code of step 1 is also that of step 100. So it must *start* with the type that
# it will have at the end.
#
# **Green here is not green on a GPU.** The interpreter runs Python, so it accepts nearly all of
# Python. All of these are green in the interpreter, and the compiler refuses each:
#
# | written | why it fails | write instead |
# |---|---|---|
# | `acc = 0.0`, then `acc += tile` | a scalar (one number) becomes a block | `tl.zeros(shape, tl.float32)` |
# | `l_sum = 0`, then `l_sum += 0.5` | a whole number becomes a float | `0.0` |
# | a float16 accumulator, `acc += tl.dot(...)` | float16 becomes float32 | start in float32 |
# | `break` in a loop | not in the language | a loop bound, or a mask |
# | `print(tile)` | a GPU's print begins with a text | `print("tile", tile)` |
# | a list and `append` | a list cannot grow | one accumulator |
#
# A scalar start is fine where the value *stays* a scalar: lesson 05's
# `m = float("-inf")` met `tl.max(s, 0)`, one number, in every step. A block that starts with
# something else than 0 is `tl.full(shape, value, dtype)`.

# %% quiz-types
Quiz(
    "Lesson 07 carries m, one maximum for each of 64 query rows, through a "
    "loop. How does it start?",
    options=[
        ('`m = float("-inf")`', False, "A scalar; after one step m is a block of 64."),
        (
            '`m = tl.full((64,), float("-inf"), tl.float32)`',
            True,
            "Shape and dtype as at the end.",
        ),
        (
            "`m = tl.zeros((64,), tl.float32)`",
            False,
            "It compiles, and fails where all scores of a row lie near -100 or lower: every "
            "exp(s - m) vanishes.",
        ),
    ],
)

# %% race-say [markdown]
# ## A mistake that even the compiler cannot see: the race
#
# **Picture.** Two cashiers share one cash book. It says 0. Both read the 0. One
# adds 3 and writes 3. The other adds 4 and writes 4. The book says 4, and 3 is
# lost. Had they worked one after the other, it would say 7.
#
# This is a **race**: the result depends on who comes first. It needs an address
# that one program *stores* to while another program loads it or stores to it.
# Two programs that only *read* the same address never race.
#
# **Where it happens.** A product with a long inner size K can be split: program 0 takes the
# first half, program 1 the second, and both add to the same tile of the result. Here it is for
# a dot product of two vectors, with load, add, store.


# %% split-k-kernel
@triton.jit
def split_kernel(a, b, out, k, BLOCK: tl.constexpr):
    steps = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # (BLOCK,)
    mask = steps < k
    a_part = tl.load(a + steps, mask=mask, other=0.0)
    b_part = tl.load(b + steps, mask=mask, other=0.0)
    part = tl.sum(a_part * b_part, 0)
    tl.store(out, tl.load(out) + part)  # load, add, store


def split_dot(a, b, *, block=64):
    """Return a @ b as a tensor (1,). a, b: (k,)"""
    out = torch.zeros(1, device=a.device)
    grid = (triton.cdiv(a.numel(), block),)
    split_kernel[grid](a, b, out, a.numel(), BLOCK=block)
    return out


# %% predict-race
p_race = Predict(
    "6-race",
    "a and b hold 65536 ones, in blocks of 64: 1024 programs, right answer "
    "65536. What is `split_dot` on a GPU?",
    options=["65536", "nearly 65536", "a tiny part of 65536"],
)
p_race

# %% run-race-text [markdown]
# The next cell runs it here and compiles it for a GPU. It takes about 5 seconds.

# %% run-race
# the interpreter takes long for 1024 programs: there 8 of them, for 512 ones
ones = torch.ones(65536 if device == "cuda" else 512, device=device)
print("right:", ones.numel(), " split_dot:", split_dot(ones, ones).item())
print("compiles:", compile_for(split_dot, ones.cpu(), ones.cpu()).ok)

# %% race-measured [markdown]
# The interpreter gets it right: it runs program 0, then 1, then 2. The kernel also compiles. And on
# a GPU?

# %% race-recorded
RECORD = load_measurements("h100_ceilings")
print(f"{RECORD['device']}, 65536 ones, {RECORD['shapes']['programs']} programs")
for result, runs in RECORD["racing_sums"].items():
    print(f"{result:>5} in {runs} of {RECORD['shapes']['runs']} runs")

# %% race-reveal
p_race.reveal(
    "a tiny part of 65536",
    "Each part is 64: one or two of 1024 are in it. The others were overwritten.",
)

# %% race-order [markdown]
# ## The instrument: a ledger for races
#
# A race can be found without a GPU and without bad luck: it is enough to know who touches
# what. `RaceLedger` notes, for every address, which
# programs load it and which store to it.

# %% run-race-ledger
try:
    with RaceLedger() as ledger:
        split_dot(ones[:256], ones[:256])
    print(*ledger.races, sep="\n")
except LedgerUnavailable as error:  # on a GPU machine
    print(error)

# %% mend-say [markdown]
# There are two ways out.
#
# - **An atomic addition**, `tl.atomic_add(pointer, value)`: load, add and store
#   as one step that nobody can interrupt. Every part is counted, in some order.
# - **A place of its own for each program**, and a second step, after the launch has ended, that
#   adds up the places. This is what decoding kernels do with (m, ℓ, O): lesson 03's merge.
#
# In 6.4 you take one of them.


#
# FlashAttention's forward pass has no race at all: each program owns a tile of
# Q rows and alone writes those rows of O. Many programs read the same K and V,
# which is allowed. If the *keys* were split over programs, several would share rows of O,
# and need one of the two ways out. (Lesson 10 takes the second.)
#
# ## What was shown, and what was not
#
# - *Shown by running:* tiles, `tl.dot`, a carried accumulator. *Counted:* their bytes, and an
#   address that programs race for. *Compiled* for sm_80: the column sums, the split product.
# - *Measured*, on one H100: TF32's error, and the lost sums of the race.
# - *Not shown:* speed, and which tile sizes are good. Lesson 08 is about that.

# %% questions [markdown]
# ## Questions

# %% quiz-read-race
Quiz(
    "32 programs load the same tile of K, each writes its own rows of O. Is there a race?",
    options=[
        ("Yes, K is shared", False, "Sharing a load is harmless: nobody changes K."),
        ("No", True, "No address is stored by one program and touched by another."),
        ("Only without an atomic load", False, "Loads never need to be atomic here."),
    ],
)

# %% quiz-green
Quiz(
    "A kernel gives the right answer in the interpreter on ten random inputs. What is certain?",
    options=[
        ("It compiles for a GPU", False, "The interpreter accepts what the compiler refuses."),
        ("It has no race", False, "Programs ran in order."),
        ("Its float32 products are exact on a GPU", False, "TF32 does not exist here."),
        (
            "Its formulas are right on these inputs",
            True,
            "That is much, and it is all. The compile check and the two "
            "ledgers answer some of the other questions.",
        ),
    ],
)

# %% quiz-address
Quiz(
    "A matrix has stride_row = 1 and stride_col = 50. At which offset from base "
    "does entry (4, 3) lie?",
    answer=154,
    tolerance=0,
    explanation="4 * 1 + 3 * 50. It is column-major with 50 rows.",
)

# %% exercises [markdown]
# ## Your turn
#
# Open `exercises/06_triton_in_two_dimensions.ipynb`: `load_tile` and
# `store_tile` (6.1), one tile of scores (6.2), a matrix product with a carried
# accumulator (6.3), five kernels that are all green here, and one of them to
# mend (6.4), and stairs with another rule, stored turned round (6.5).
#
# ## What comes next
#
# **Lesson 07 puts it together.** Lesson 04's NumPy program stands on the left,
# Triton on the right: tiles from this lesson, the two lines of 5.4's loop,
# three typed starts. Its `load_tile` is a little shorter than yours: a tile
# there always has all columns of a head, so only rows need a mask.
#
# ## To read
#
# - The Triton tutorial *Matrix Multiplication*,
#   [triton-lang.org](https://triton-lang.org/main/getting-started/tutorials/),
#   and the reference of
#   [`tl.dot`](https://triton-lang.org/main/python-api/generated/triton.language.dot.html).
# - NumPy's guide to
#   [broadcasting](https://numpy.org/doc/stable/user/basics.broadcasting.html).
# - NVIDIA's [cuTile](https://docs.nvidia.com/cuda/cutile-python): another Python with
#   tiles, on *Tile IR*, to which a branch of Triton compiles, too.
# - Dao 2023, *FlashAttention-2*,
#   [arXiv:2307.08691](https://arxiv.org/abs/2307.08691), section 3.2: how work
#   is split over programs.

# %% optional-tf32 [markdown]
# ## Optional: TF32 by hand
#
# Nothing later needs this. Cut the 13 last bits off every input, then multiply in float64: that
# **emulates** TF32 without a GPU. On the record's numbers an H100 and this emulation differ by at
# most 0.000008; there a float32 product errs by 0.000010. So the H100 cuts, too.


# %% tf32-emulation
def to_tf32(x):
    """Emulation: float32 with the last 13 of its 23 mantissa bits cut off."""
    bits = x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)


third = np.float32(1 / 3)
print(f"1/3 in float32 {third:.9f}")
print(f"1/3 in TF32    {to_tf32(np.array([third]))[0]:.9f}")

# %% run-tf32
rng = np.random.default_rng(0)
q = rng.normal(size=(64, 64)).astype(np.float32)
k = rng.normal(size=(64, 64)).astype(np.float32)
truth = q.astype(np.float64) @ k.T.astype(np.float64)
cut = to_tf32(q).astype(np.float64) @ to_tf32(k).T.astype(np.float64)
print(f"float32            {np.abs(q @ k.T - truth).max():.6f}")
print(f"TF32 (emulated)    {np.abs(cut - truth).max():.6f}")
