# %% title [markdown]
# # 07 · FlashAttention in Triton
#
# **You need:** lesson 03 (three notes: m, ℓ, O), lesson 04 (tiles), lesson 06
# (`tl.dot`, pointers by broadcasting), and 5.5 and 6.5 (`tl.where`, `tl.max` by rows,
# `tl.minimum`). No GPU. (macOS and Windows: the
# compiler's figures are a record; your kernels are compiled when graded.)
#
# **You will be able to:** read and write the whole kernel; prove from a ledger
# what it moves and what it does not; say what `lse` is for; count your own kernel beside the
# course's, and time it where there is a GPU.
#
# **Time:** 39 minutes for this lesson, 73 for its exercises, and 40 more for
# the empty cell, 7★.

# %% question [markdown]
# ## The question
#
# You have all the parts. Lesson 03 streams a softmax. Lesson 04 cuts Q, K and V
# into tiles and runs on flat memory. Lesson 06 loads tiles and multiplies them
# in Triton.
#
# **What is new when they are put together?** Nothing. That is the point of this
# lesson: FlashAttention is a combination, and you know each piece.

# %% imports
import numpy as np
import torch

from course_lib import Predict, Quiz, count
from course_lib.accounting.traffic import flash_tile_loads
from course_lib.attention.truth import attention_float64
from course_lib.kernels.flash_forward import flash_attention_with_lse
from course_lib.style.table import Table
from course_lib.widgets import HBMAccountant, TileStepper


# %% picture [markdown]
# ## The picture: one desk per program
#
# Go back to the workshop: a desk is one SM of the GPU. At it sits a *program*, which
# owns one tile of queries and nothing else. (Two programs can share a desk.)
#
# - It fetches its tile of Q **once**.
# - K and V come by, tile by tile. For each, it makes a small
#   square of scores, uses it, and wipes it off.
# - It keeps three notes per query: m, ℓ and O. They never leave the desk.
# - After the last tile it divides O by ℓ and stores its tile of O **once**.
#
# No program talks to another. So it does not matter how many run at a time.

# %% by-hand [markdown]
# ## A number by hand
#
# Take one head, N = 512 queries and keys, d = 16, tiles of 64 rows, float32
# (4 bytes).
#
# - There are 512 / 64 = 8 tiles of queries, so 8 programs.
# - Q and O cross once: 512 × 16 × 4 = 32,768 bytes each.
# - The scores would be 512 × 512 × 4 = 1,048,576 bytes. They never leave a desk.
#
# K has as many bytes as Q. How many bytes of K are *loaded*? Write a number down
# before you go on.

# %% predict-loads
p_loads = Predict(
    "7-k-bytes",
    "How many bytes of K does the kernel load, N = 512, d = 16?",
    unit="bytes",
)
p_loads

# %% count-course
device = "cuda" if torch.cuda.is_available() else "cpu"
rng = np.random.default_rng(7)
q, k, v = (
    torch.from_numpy(rng.standard_normal((1, 1, 512, 16)).astype("float32")).to(device)
    for _ in range(3)
)
ledger = count(flash_attention_with_lse, q, k, v)
ledger

# %% reveal-loads
scores = ledger.total - sum(
    ledger.read[name] + ledger.written[name] for name in ("q", "k", "v", "o", "lse")
)
p_loads.reveal(
    ledger.read["k"],
    f"8 programs, each past all 8 tiles of K. Of scores, {scores} bytes were moved.",
)

# %% side-by-side [markdown]
# ## The code, side by side
#
# On the left is exercise 4.6, `flash_program`: NumPy, on flat memory. On the
# right is Triton, for all keys, as you will write it in 7.3. Nearly all that differs is the
# names of the functions.
#
# Five places on the right are **yours**. Write them on paper before you open the
# exercises, whose texts repeat some: lessons 05 and 06 have all that they need.
#
# | what happens | lesson 04, NumPy | Triton |
# |---|---|---|
# | which tile am I? | `tile, head = pid` | `tile = tl.program_id(0)`<br>`head = tl.program_id(1)` |
# | my rows | `rows = tile * block_q + np.arange(block_q)` | `rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)` |
# | fetch Q once | `load_tile(memory, q, rows, n_q, ...)` | `load_tile(q, rows, n_q, ...)` |
# | note m | `m = np.full(block_q, -np.inf)` | **yours (1)** |
# | note ℓ | `l_sum = np.zeros(block_q)` | `l_sum = tl.zeros((BLOCK_Q,), tl.float32)` |
# | note O | `acc = np.zeros((block_q, head_dim))` | `acc = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)` |
# | along the keys | `for start in range(0, n_k, block_k):` | `for start in range(0, n_k, BLOCK_K):` |
# | which keys | `keys = start + np.arange(block_k)` | `keys = start + tl.arange(0, BLOCK_K)` |
# | fetch K, and V alike | `load_tile(memory, k, keys, n_k, ...)` | `load_tile(k, keys, n_k, ...)` |
# | scores | `s = q_tile @ k_tile.T` | **yours (2)** |
# | scale | `s *= scale` | the same |
# | exists? | `visible = keys[None, :] < n_k` | the same |
# | past the end | `s = np.where(visible, s, -np.inf)` | **yours (3)** |
# | new maximum | `m_new = np.maximum(m, s.max(1))` | **yours (4)** |
# | how much to shrink | `alpha = np.exp(m - m_new)` | `alpha = tl.exp(m - m_new)` |
# | what the keys count | `p = np.exp(s - m_new[:, None])` | `p = tl.exp(s - m_new[:, None])` |
# | shrink ℓ, add | `l_sum = l_sum * alpha + p.sum(1)` | `l_sum = l_sum * alpha + tl.sum(p, 1)` |
# | shrink O | `acc *= alpha[:, None]` | the same |
# | add to O | `acc += p @ v_tile` | **yours (5)** |
# | remember m | `m = m_new` | the same |
# | divide once | `acc / l_sum[:, None]` | the same |
# | store O once | `store_tile(memory, o, ...)` | `store_tile(o, ...)` |
#
# Three of your five differ from the left by more than a name, and lesson 06 showed why. (7.1
# and 7.2 name them.)
#
# Causal attention adds two things: another condition on which keys are visible,
# and an earlier end of the loop. That is exercise 7.4. Here are both, for 5
# queries and 9 keys.

# %% staircase
# @title A picture: 5 queries, 9 keys, and where the second tile of queries stops
from course_lib.figures.staircase import draw_staircase

draw_staircase(5, 9, block_q=2, block_k=4, tile=1)

# %% staircase-say [markdown]
# Read `end` off the staircase for the first and the third tile of queries too. Then
# find what it is made of: the tile's number, `BLOCK_Q`, and the numbers of queries and
# keys. Does your formula hold for the third tile, which is short? Keep it: 7.4 asks for it.

# %% right [markdown]
# ## Is it right?
#
# "Right" has a meaning in this course. Truth is attention in float64. An answer
# may be off by twice what eager PyTorch is off in the same dtype, and 1e-5 more in float32
# (lesson 01). Nothing is approximated: the two differ by rounding only.

# %% compare
o, lse = flash_attention_with_lse(q, k, v)
truth, truth_lse = attention_float64(q, k, v)
eager = torch.softmax(q @ k.transpose(-1, -2) / 16**0.5, -1) @ v

for name, x in (("eager PyTorch", eager), ("the kernel", o)):
    print(f"{name:14} largest error {np.abs(x.cpu().numpy() - truth).max():.1e}")
print(f"{'lse':14} largest error {np.abs(lse.cpu().numpy() - truth_lse).max():.1e}")

# %% ledger-heading [markdown]
# ## The instrument: the kernel's own ledger
#
# A ledger records each load and each store of each program, in their order. With a causal mask
# the tiles of the future are not visited; those on the diagonal are half empty, and loaded whole.

# %% count-causal
causal = count(flash_attention_with_lse, q, k, v, causal=True)
shape = dict(n=512, d=16, b=4, block_q=64, block_k=64, lse=True)
for name, books, is_causal in (("all keys", ledger, False), ("causal", causal, True)):
    model = flash_tile_loads.bytes(**shape, causal=is_causal)
    print(f"{name:8} {books.total:,} bytes counted, {model:,} by lesson 04's formula (and lse)")

# %% draw-visits
# @title A picture: the loads of K tiles in their order
from course_lib.figures.visits import draw_visits

draw_visits({"all keys": ledger, "causal": causal}, n=512, block=64)


# %% replay-text [markdown]
# ### One program, line by line
#
# The stepper of lesson 03 can replay what a program of the course's kernel loaded.
# Program 2 owns queries 32 to 47 of 64, so it visits three
# [tiles](#fac-stepper-tiles) of keys. Before you press *Next*: how many of the 16
# keys of the last tile count for query 32? [Its notes](#fac-stepper-notes) show
# what they add.

# %% replay
few = [x[:, :, :64] for x in (q, k, v)]
visited = count(flash_attention_with_lse, *few, causal=True, block_q=16, block_k=16)
TileStepper.from_kernel(visited, *few, causal=True, program=(2, 0), whose="the course's kernel")

# %% lse-heading [markdown]
# ## What is lse for?
#
# The kernel also stores one number per query, 4 bytes: **lse** = m + ln ℓ (lesson 05). With it any
# weight can be computed again from q and k, as exp(s − lse). So the weights are not stored, and
# yet they are not lost. The backward pass (training, lesson 09) does this for every tile; in 7.5 you do it
# for one.

# %% grow-heading [markdown]
# ## Predict, then run: what happens as N grows?
#
# The kernel stores O(N) numbers. Does it also *load* only O(N)?

# %% predict-grow
p_grow = Predict(
    "7-double-n",
    "Double N. By how much do the kernel's loads of K grow?",
    options=["2 times", "4 times", "they stay the same"],
)
p_grow


# %% chart-heading [markdown]
# Here is the accountant at this lesson's size. The grey area is what the ledger counted; look for
# *flash at worst*, the formula of the [tile loads](#fac-accountant-flash_tile_loads). (It lacks
# the 2 kB of lse.) Double [N](#fac-accountant-n), and see what K alone does.

# %% chart-traffic
accountant = HBMAccountant(n=512, d=16, heads=1, dtype="fp32", block_q=64, block_k=64)
accountant.add_ledger(ledger, "this kernel, counted at N = 512")
accountant

# %% reveal-grow
p_grow.reveal(
    "4 times",
    "Twice as many programs, each past twice as many keys. Memory is O(N), "
    "traffic of the load instructions is not.",
)

# %% chart-say [markdown]
# Of naive attention, the trips of S and P grow four times; Q, K, V and O, like the least, twice. Of
# the tile loads K and V grow four times, Q and O twice. Where those loads land is another question:
# at moderate N most are answered by the L2 cache, and DRAM sees about the least (lesson 04).

# %% gpu-heading [markdown]
# ## On a real GPU
#
# The interpreter runs on a CPU. Its time says nothing about a GPU. So the next
# chart shows what one H100 measured: batch 1, 8 heads, d = 128, bfloat16. The
# kernel is the course's, with tiles of 64 × 64: the loop that you are about to write, and strides
# for any layout.
#
# *SDPA* is PyTorch's own fused attention. It has several backends, and a
# comparison must name the one it means: here FlashAttention-2 (FA2) and the one from
# cuDNN, NVIDIA's own library.

# %% chart-gpu
# @title A picture: time and memory over N, on an H100
from course_lib.figures.forward import draw_time_and_memory

draw_time_and_memory()

# %% table-gpu
from course_lib.figures.forward import against_naive, by_tiles

display(against_naive(), by_tiles())


# %% spills-text [markdown]
# What do larger tiles change in the kernel? A thread can have 255 *registers*, the
# places where its numbers lie. What does not fit *spills* into slower memory. A
# compiler needs no GPU to tell: here it compiles the three for an H100, on your
# machine. That takes about 8 seconds.

# %% spills
from course_lib.child.xray import xray_launch

sizes = ((64, 64), (128, 64), (128, 128))


def three_tiles(x):
    for block_q, block_k in sizes:
        flash_attention_with_lse(x, x, x, block_q=block_q, block_k=block_k)


rays = xray_launch(three_tiles, torch.empty(1, 8, 8192, 128).bfloat16(), target="H100")
rows = [(f"{b_q}x{b_k}", x.registers, x.stack_bytes) for (b_q, b_k), x in zip(sizes, rays)]
Table(("tiles", "registers a thread", "bytes spilled a thread"), rows)

# %% gpu-say [markdown]
# Read four things from the chart and the tables.
#
# 1. **Memory:** eager (six trips) grows like N², the others like N (FA2 from 2048 on; before,
#    it splits the keys, as in lesson 10).
# 2. **Time:** several times faster, not hundreds. At N = 8192, by the data sheet, the
#    least bytes take 20 µs, and the products (8 heads of 4 N² d FLOPs) take this GPU 278 µs.
#    The kernel takes 709. What it waits for in the rest is the question of lesson 08.
# 3. **A page of Triton is enough.** At all three N this kernel is about a tenth faster than
#    FlashAttention-2. Mind what is compared: FA2 was written for the A100 and does without the
#    H100's own instructions for products and for copies. Triton compiles this kernel for the H100,
#    with the first of them. cuDNN is well ahead of both.
# 4. **In this kernel larger tiles lose.** Tiles of 128 × 128 re-read half as much and take
#    twice as long. They spill; but 128 × 64 is nearly as slow, and spills less than half
#    as much. So spilling is not all of it; the rest was not measured.

# %% shown [markdown]
# ## What was shown, and what was not
#
# **Shown.** The kernel computes attention to rounding. It moves Q, O and lse
# once, K and V once per visited tile, and no score: formula and ledger agree to
# the byte. On one H100 it needs O(N) memory and runs beside FlashAttention-2.
#
# **Not shown.** That it is the fastest way: it is not. That fewer bytes always
# mean less time: at short N the time goes into starting kernels, whatever they
# move (lesson 02). That it helps when one token is generated at a time: a single
# query has no N² to avoid (Part II).

# %% quiz-approximate
Quiz(
    "A colleague says: FlashAttention is a fast approximation of attention.",
    options=[
        (
            "True: the softmax is never complete.",
            False,
            "It is complete at the last tile. Every rescale is exact in algebra.",
        ),
        (
            "False: it differs by rounding only.",
            True,
            "The cell under “Is it right?” shows errors of the size of eager PyTorch's.",
        ),
        (
            "True with small tiles, false with large ones.",
            False,
            "The answer does not depend on the tile size, up to rounding.",
        ),
    ],
)

# %% quiz-fewer-flops
Quiz(
    "No mask. Why is the kernel faster than eager attention at long N?",
    options=[
        (
            "It does fewer floating-point operations.",
            False,
            "It does a few more: the rescales. The two matmuls are the same.",
        ),
        (
            "It moves far fewer bytes, and has no softmax kernel of its own.",
            True,
            "The N x N grid is never written or read, and lesson 01's softmax, slower than its bytes, "
            "is gone. How much each saves is not measured here.",
        ),
        (
            "It runs on tensor cores, and eager does not.",
            False,
            "Eager's two matmuls use them as well.",
        ),
    ],
)

# %% quiz-inspect
Quiz(
    "You need the weight of query 40 on key 7 for a picture. What do you do?",
    options=[
        (
            "Fall back to eager attention for the whole layer.",
            False,
            "It works, and writes N x N numbers to look at one.",
        ),
        (
            "Compute that score again, and take the exponential of score minus lse.",
            True,
            "One dot product. lse is one number per row.",
        ),
        (
            "It cannot be known: the scores were thrown away.",
            False,
            "They were not stored, but they can be computed again.",
        ),
    ],
)

# %% next [markdown]
# ## Now write it
#
# The exercises take you there in four steps: one tile, the loop, ragged lengths
# with lse, causal. Then an empty cell waits.
#
# **Next:** lesson 08 makes it fast. Same algorithm, eight kernels, measured rung
# by rung.
#
# **To read:**
# - Dao, Fu, Ermon, Rudra, Ré: *FlashAttention* (2022), arXiv:2205.14135,
#   section 3.1 and algorithm 1.
# - Shah et al.: *FlashAttention-3* (2024), arXiv:2407.08608, section 1: what
#   FlashAttention-2 leaves unused on an H100.
# - Dao: *FlashAttention-2* (2023), arXiv:2307.08691, section 3: why Q is in the
#   outer loop.
# - Milakov and Gimelshein: *Online normalizer calculation for softmax* (2018),
#   arXiv:1805.02867, section 3.
