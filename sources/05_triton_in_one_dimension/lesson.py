# %% title [markdown]
# # 05 · Triton in one dimension
#
# **You need:** lesson 03 (m, ℓ and alpha) and the ragged last tile of lesson
# 04. No GPU: where there is none, Triton's interpreter runs the kernels.
# (On macOS and Windows there is the interpreter alone.)
#
# **You will be able to:** say what a program is and which numbers it owns; read
# and write with offsets and masks; choose the value that empty places must
# have; sum up a row that is longer than any block; say what the interpreter
# can show and what it cannot.
#
# **Time:** 38 minutes for this lesson, 52 for its five exercises.

# %% question [markdown]
# ## The question
#
# In lesson 04 you wrote the work of *one* program and called it in a Python
# loop: one tile after the other. A GPU runs thousands of such programs at
# once, and nobody loops.
#
# **How does one program know which part of the data is its own, and what
# happens at the end of the data, where no full block is left?**
#
# We answer it in **Triton**, a language inside Python for GPU programs.
# This lesson has vectors and rows, and in its last exercise a first tile; lesson 06 builds them.

# %% imports
import numpy as np
import torch
import triton
import triton.language as tl

from course_lib import Predict, Quiz, count
from course_lib.accounting.kernel_ledger import OutOfBounds
from course_lib.doctor import headline

device = "cuda" if torch.cuda.is_available() else "cpu"
print(headline())


# %% picture [markdown]
# ## The picture: one letter, many readers
#
# A printer copies **one letter** and sends it to all the workers of a company.
# The letter is the same for everyone. It says: "Take your worker number.
# Multiply it by 8. Start at that box and do the next 8 boxes."
#
# - The letter is the **kernel**: one Python function with `@triton.jit`.
# - Each worker is a **program**. Its number is `tl.program_id(0)`.
# - The number of workers is the **grid**, chosen at the launch:
#   `kernel[(3,)](...)` starts three programs, numbered 0, 1 and 2.
# - The 8 boxes are the **block**. A program handles all of them at once:
#   its variables are not numbers but whole blocks of numbers.
#
# The company has 21 boxes, so three workers are needed: 8 + 8 + 5. The last
# one must know that three of its boxes do not exist.

# %% draw-grid
# @title A picture: 21 numbers and the programs that handle them
from course_lib.figures.blocks import draw_programs

n, BLOCK = 21, 8
draw_programs(n, BLOCK)


# %% picture-say [markdown]
# The dotted places 21, 22 and 23 belong to program 2's block and to no vector.
#
# ## A number by hand
#
# Take a vector of `n = 10` numbers and `BLOCK = 4`. Work out, on paper, what
# program 2 owns. Two formulas are all there is:
#
# | | formula | program 2 |
# |---|---|---|
# | offsets | `program_id * BLOCK + [0, 1, 2, 3]` | 8, 9, 10, 11 |
# | mask | `offsets < n` | true, true, false, false |
#
# An **offset** is a distance from the start of the vector, in entries. The
# **mask** says which offsets may touch memory. Program 2 still has four
# offsets. It uses two.

# %% by-hand-code
pid, block, n = 2, 4, 10
offsets = pid * block + np.arange(block)  # (4,)
print("offsets", offsets)
print("mask   ", offsets < n)


# %% first-kernel [markdown]
# ## The code: a kernel in five lines
#
# This kernel writes, into each place, the number of the program that owns it.


# %% who-kernel
@triton.jit
def who_kernel(out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)  # which program am I?
    offsets = pid * BLOCK + tl.arange(0, BLOCK)  # (BLOCK,)
    mask = offsets < n  # (BLOCK,)
    tl.store(out + offsets, pid, mask=mask)


def who(n, block):
    """Return (n,): for each place, the program that wrote it."""
    out = torch.full((n,), -1, dtype=torch.int32, device=device)
    who_kernel[(triton.cdiv(n, block),)](out, n, BLOCK=block)
    return out


# %% read-kernel [markdown]
# Line by line:
#
# - `out` is a **pointer**: the address of the first entry of the tensor.
#   `out + offsets` is a block of addresses.
# - `tl.arange(0, BLOCK)` is the block 0, 1, ..., BLOCK − 1. Its length must be
#   a power of two, and known before the kernel is compiled. That is what
#   `tl.constexpr` says.
# - `tl.store` writes to a block of addresses at once, where the mask is true. `pid` is
#   one number: it goes to each of them.
# - The second function is the **launcher**: ordinary Python. It makes the
#   result, counts the programs and starts them. `triton.cdiv(n, block)` is
#   n / block, rounded *up*.

# %% predict-who
p_who = Predict(
    "5-who",
    "`who(13, block=4)` has 13 entries. What stands in the last one?",
    options=["1", "3", "4", "12"],
)
p_who

# %% run-who
print(who(13, block=4).tolist())

# %% reveal-who
p_who.reveal(
    str(who(13, block=4)[-1].item()),
    "Programs 0, 1 and 2 own four places each, program 3 owns the last one.",
)

# %% not-a-thread [markdown]
# ## A program is not a thread
#
# If you know CUDA, you may think of `program_id` as a thread number. It is not.
# In CUDA you write what *one* **thread** does, often to one number or a few. In Triton you write
# what a **program** does to a whole block, and the compiler shares the block out among its
# threads: 128 of them, unless you ask for another number (4 **warps**, groups of 32 threads).
#
# With `BLOCK = 1024`, each of the 128 threads holds 8 of the block's numbers.
# You never write a thread's number, and threads never appear in the code.
# What if somebody writes the kernel for threads?


# %% thread-kernel
@triton.jit
def thread_kernel(out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid + tl.arange(0, BLOCK)  # wrong: blocks start at 0, 1, 2
    tl.store(out + offsets, pid, mask=offsets < n)


out = torch.full((10,), -1, dtype=torch.int32, device=device)
thread_kernel[(3,)](out, 10, BLOCK=4)
print(out.tolist())

# %% thread-say [markdown]
# The three blocks start at 0, 1 and 2 and lie on top of each other. Places 6 to
# 9 were never written: they still hold −1. Places 1 to 4 were written more than
# once, and on a GPU it is open whose number stays.

# %% quiz-thread
Quiz(
    "A vector has 1000 numbers, and BLOCK is 256. How many programs must the launcher start?",
    answer=4,
    tolerance=0,
    unit="programs",
    explanation="1000 / 256 is 3.9; rounded up, 4. The last program uses 232 "
    "of its 256 places. The number of threads plays no part.",
)

# %% mask-intro [markdown]
# ## Why the mask matters
#
# Now a kernel that reads and writes: each number times a factor.


# %% scale-kernel
@triton.jit
def scale_kernel(x, out, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    block = tl.load(x + offsets, mask=mask)  # (BLOCK,)
    tl.store(out + offsets, block * factor, mask=mask)


def scale(x, factor, *, block=64):
    """Return x * factor. x: (n,)"""
    n = x.numel()  # how many numbers x holds
    out = torch.empty_like(x)  # shape and dtype of x, not yet written
    scale_kernel[(triton.cdiv(n, block),)](x, out, n, factor, BLOCK=block)
    return out


x = torch.arange(10, dtype=torch.float32, device=device)
print(scale(x, 3.0, block=4).tolist())

# %% ledger [markdown]
# ## The instrument: the ledger
#
# `count(function, arguments)` runs a launcher in the interpreter and writes
# down what each load and store asks for, tensor by tensor.

# %% predict-bytes
p_bytes = Predict(
    "5-bytes",
    "x has 1000 float32 numbers (4 bytes each), blocks of 256. How many bytes "
    "does `scale` load from x?",
    unit="bytes",
)
p_bytes

# %% run-ledger
ledger = count(scale, torch.rand(1000, device=device), 3.0, block=256)
display(ledger)
print("bytes loaded from x:", ledger.read["x"])

# %% reveal-bytes
p_bytes.reveal(
    ledger.read["x"],
    "4 bytes for each of 1000 numbers. The four blocks have 1024 places; the "
    "24 that the mask switches off cost nothing.",
)

# %% visits-say [markdown]
# This is a *count* of what the instructions ask for, like lesson 04's tile loads. It knows
# nothing of caches.
#
# ## What happens without the mask?
#
# Take the mask off the store, and nothing else.


# %% no-mask-kernel
@triton.jit
def no_mask_kernel(x, out, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    block = tl.load(x + offsets, mask=offsets < n)
    tl.store(out + offsets, block * factor)  # no mask


def scale_no_mask(x, factor, *, block=64):
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), block),)
    no_mask_kernel[grid](x, out, x.numel(), factor, BLOCK=block)
    return out


# %% predict-no-mask
p_mask = Predict(
    "5-no-mask",
    "1152 numbers, blocks of 256, no mask on the store. How many numbers does it write behind "
    "the end of `out`?",
    unit="numbers",
)
p_mask

# %% run-no-mask
try:
    count(scale_no_mask, torch.rand(1152, device=device), 3.0, block=256)
except OutOfBounds as error:
    print(error)

# %% reveal-no-mask
p_mask.reveal(
    -1152 % 256,
    "Five blocks have 1280 places. Shown: here the ledger stops the kernel before the first of "
    "them is written. Not shown: what a GPU does. We ran no such store on one.",
)

# %% guard-bands [markdown]
# How did the ledger see it? It lays every tensor between two strips of memory that belong
# to nobody, **guard bands**: an address that falls there is reported *before* it is touched,
# with the tensor, the program (up to three numbers; ours has one, the others are 0)
# and the line. Every check of the exercises runs your kernels this way.
#
# ## What stands in the empty places? `other`
#
# A mask switches off the load. But the block still has a value in each place.
# `other=` says which. **Without `other` the value is undefined.** The
# interpreter puts 0 there, so you may not notice. On a GPU do not count on it. (`scale` has
# none: its store leaves out the same places.)
#
# Which value is right? The one that changes nothing:
#
# | what you do with the block | neutral value | why |
# |---|---|---|
# | sum | `0.0` | a + 0 = a |
# | maximum | `-inf` | max(a, −∞) = a |
#
# Let us see a wrong one.


# %% max-kernel
@triton.jit
def max_kernel(x, out, n_cols, x_row, other, BLOCK: tl.constexpr):
    row = tl.program_id(0)  # one program per row
    cols = tl.arange(0, BLOCK)  # (BLOCK,), BLOCK >= n_cols
    s = tl.load(x + row * x_row + cols, mask=cols < n_cols, other=other)
    tl.store(out + row, tl.max(s, 0))


def row_max(x, other):
    """Return the largest entry of each row. x: (n_rows, n_cols)"""
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, device=x.device)
    block = triton.next_power_of_2(n_cols)
    max_kernel[(n_rows,)](x, out, n_cols, x.stride(0), other, BLOCK=block)
    return out


# %% row-max-read [markdown]
# New here: one program per *row*. The block must cover the row, and its
# length must be a power of two: a row of 3 sits in a block of 4. Row i starts
# at `x + i * x_row`. `x_row` is the **row stride**, the distance from one row
# to the next, in entries. `tl.max(s, 0)` is the largest entry of `s`: the 0 says along
# axis 0, a block's only one.

# %% predict-other
p_other = Predict(
    "5-other",
    "The row is [-3, -1, -2], in a block of 4, loaded with other=0.0. What is its maximum?",
)
p_other

# %% run-other
rows = torch.tensor([[-3.0, -1.0, -2.0], [4.0, 1.0, 2.0]], device=device)
print("other = 0.0 ", row_max(rows, 0.0).tolist())
print("other = -inf", row_max(rows, float("-inf")).tolist())

# %% reveal-other
p_other.reveal(
    row_max(rows, 0.0)[0].item(),
    "The fourth place counts as a score of 0, larger than all real ones. Only "
    "the all-negative row shows it: the second row is right by luck.",
)

# %% masked-score [markdown]
# ## A masked score is −inf, not 0
#
# The softmax needs both, a maximum and a sum of exponentials. One `other`
# serves both: **−inf**. It is not the maximum, unless the whole row is empty, and exp(−inf) is 0, so it adds
# nothing to the sum.
#
# A score of 0 sounds harmless. It is not: exp(0 − m) is a weight like any
# other. Do it by hand for the row [−3, −1, −2] in a block of 4.

# %% softmax-padding
s = np.array([-3.0, -1.0, -2.0])  # (3,)
for other in (-np.inf, 0.0):
    block = np.append(s, other)  # (4,)
    p = np.exp(block - block.max())
    print(f"other = {other:4}: weights", (p / p.sum()).round(4))

# %% softmax-padding-say [markdown]
# With 0, the place that does not exist takes 64 % of the weight. In a row with
# scores near −120 it would take all of it: exp(−120) is 0 in float32.
#
# In attention the same thing happens twice: at the end of the keys, and at
# every key that a causal mask hides. Exercise 5.3 lets you do it right.

# %% quiz-other
Quiz(
    "A kernel computes the product of all numbers of a row. Which `other` "
    "must the empty places have?",
    answer=1,
    tolerance=0,
    explanation="a times 1 is a. With 0 the product would always be 0.",
)

# %% long-row [markdown]
# ## A row that is too long
#
# A program that holds its whole row does everything with it before it writes: that is fusion
# (lesson 02), and the softmax that you write in 5.3 has it. What if the row does not fit?
#
# A block lives in *registers*, places for 4 bytes: 65,536 on an SM of an H100, for all its
# programs: too few for a row of a million scores. So the program must **loop**: load a block, use
# it, forget it, load the next.
#
# For a maximum that is easy. The value `m` is carried from step to step
# (`tl.maximum(a, b)` is the larger of two):


# %% long-max-kernel
@triton.jit
def long_max_kernel(x, out, n, BLOCK: tl.constexpr):
    m = float("-inf")  # the largest so far
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)  # (BLOCK,)
        s = tl.load(x + offsets, mask=offsets < n, other=float("-inf"))
        m = tl.maximum(m, tl.max(s, 0))
    tl.store(out, m)


torch.manual_seed(5)
row = torch.randn(1000, device=device)
out = torch.empty(1, device=device)
long_max_kernel[(1,)](row, out, 1000, BLOCK=64)
print(out.item(), row.max().item())

# %% lse-why [markdown]
# Softmax also needs the sum ℓ of exp(score − m). Both together make one
# number, the **log-sum-exp**:
#
# lse = ln(sum of exp(score)) = m + ln ℓ
#
# `log` in code is this natural logarithm, ln.
#
# With lse each weight, exp(score − m) / ℓ, is exp(score − lse), and FlashAttention writes
# lse down, one number per row. The obvious way is two loops: the first finds m, the
# second sums.


# %% two-pass-kernel
@triton.jit
def two_pass_kernel(x, out, n, BLOCK: tl.constexpr):
    m = float("-inf")
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        s = tl.load(x + offsets, mask=offsets < n, other=float("-inf"))
        m = tl.maximum(m, tl.max(s, 0))
    l_sum = 0.0
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        s = tl.load(x + offsets, mask=offsets < n, other=float("-inf"))
        l_sum += tl.sum(tl.exp(s - m), 0)
    tl.store(out, m + tl.log(l_sum))


def two_pass(x, *, block=64):
    """Return log(sum(exp(x))), (1,). x: (n,)"""
    out = torch.empty(1, device=x.device)
    two_pass_kernel[(1,)](x, out, x.numel(), BLOCK=block)
    return out


# %% run-two-pass
print("kernel ", two_pass(row).item())
print("PyTorch", torch.logsumexp(row, 0).item())
twice = count(two_pass, row)
print("loads per number:", twice.read["x"] / (4 * row.numel()))

# %% two-pass-say [markdown]
# Right, but every number is loaded **twice**. Lesson 03 has the way out. When a
# new maximum arrives, do not start again: shrink the old sum by alpha. Its walk, without O, needs
# one loop and loads each number once. You write it in 5.4.


# %% interpreter [markdown]
# ## What ran here: the interpreter and its limits
#
# On a machine without a GPU nothing was compiled. **Triton's interpreter** ran
# your kernels as Python, with NumPy arrays for blocks, one program after the
# other.
#
# | the interpreter | what follows |
# |---|---|
# | computes the same formulas in float32 and float16 | a wrong formula shows here |
# | checks no address | the course's ledger does |
# | runs programs in order, 0, 1, 2, ... | what depends on the order is hidden (lesson 06) |
# | accepts nearly any Python | some kernels do not compile on a GPU (lesson 06) |
# | is Python | its speed says nothing about a GPU |
# | gets bfloat16 wrong, silently | use float32 or float16 here |


# %% bfloat16
@triton.jit
def square_kernel(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    block = tl.load(x + offsets)
    tl.store(out + offsets, block * block)


def squares(x):
    out = torch.empty_like(x)
    square_kernel[(1,)](x, out, BLOCK=x.numel())
    return out


x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.bfloat16, device=device)
print("squares of 1, 2, 3, 4:", squares(x).tolist())
try:
    count(squares, x)
except TypeError as error:
    print("\nthe ledger:", error)

# %% bfloat16-say [markdown]
# In the interpreter bfloat16 is held as whole numbers, and arithmetic on their
# raw bits is nonsense. The course's ledger refuses it, so the checks do too.
#
# ## What was shown, and what was not
#
# - *Shown by running:* programs, offsets, masks, `other`, a loop with a carried
#   value.
# - *Counted:* the bytes that loads and stores ask for; an access outside a
#   tensor, with its name.
# - *Not shown:* speed, and that these kernels compile (the checks of 5.2 to 5.5 try it with yours).

# %% questions [markdown]
# ## Questions

# %% quiz-order
Quiz(
    "Program 5 needs a number that program 4 stores. In the interpreter it "
    "always finds it. And on a GPU?",
    options=[
        ("It finds it too: 4 comes before 5", False, "Program numbers are names, not turns."),
        (
            "It may or may not find it",
            True,
            "Programs run in any order and many at once. Do not rely on what "
            "another program of the same launch has stored.",
        ),
        ("The compiler refuses the kernel", False, "It cannot see who stores what."),
    ],
)

# %% quiz-block
Quiz(
    "A row has 100 scores. Which values of BLOCK can `max_kernel` use?",
    options=[
        ("100", False, "tl.arange needs a power of two."),
        ("64", False, "The block does not cover the row: 36 scores are never looked at."),
        ("128", True, "The next power of two; 28 places are empty."),
        ("256", True, "Right, but 156 places are empty: wasted work."),
    ],
)

# %% exercises [markdown]
# ## Your turn
#
# Open `exercises/05_triton_in_one_dimension.ipynb`: the offsets of a program
# (5.1), a vector sum that stays inside its tensors (5.2), a row softmax (5.3),
# the log-sum-exp of a long row in one pass (5.4), which is online softmax in
# Triton, and a first tile of rows, with `tl.where` and a maximum for each (5.5).
#
# ## What comes next
#
# Lesson 06 goes from rows to tiles: addresses in two dimensions, and `tl.dot`,
# the product of two tiles. It also answers what "green here" is worth on a GPU.
#
# ## To read
#
# - Tillet, Kung, Cox 2019, *Triton: an intermediate language and compiler for
#   tiled neural network computations*,
#   [doi:10.1145/3315508.3329973](https://doi.org/10.1145/3315508.3329973).
# - The Triton tutorials *Vector Addition* and *Fused Softmax*,
#   [triton-lang.org](https://triton-lang.org/main/getting-started/tutorials/).
# - Milakov and Gimelshein 2018, *Online normalizer calculation for softmax*,
#   [arXiv:1805.02867](https://arxiv.org/abs/1805.02867).
