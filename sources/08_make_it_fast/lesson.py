# %% title [markdown]
# # 08 · Make it fast
#
# **You need:** lesson 07 (the kernel), lesson 02 (roofline, three regimes),
# lesson 04 (tiles, skip and partial and full). No GPU: the times in this lesson
# were measured on one H100, and each chart names its device. If you have a GPU,
# one cell measures yours. (macOS and Windows: what the compiler says is a record.)
#
# **You will be able to:** say what a fast kernel does not wait for; say what each
# step from a plain kernel to a faster one gains, and why; choose tiles with the
# compiler's own figures; decide which attention to call.
#
# **Time:** 56 minutes for this lesson, 43 for its exercises. A second half, for
# whoever wants to know the rest, is optional: 66 minutes.

# %% question [markdown]
# ## The question
#
# Your kernel of 7.4 is right. It writes no score, and at moderate N DRAM sees about the
# least. Another kernel does the same FLOPs on the same GPU in less than
# two thirds of the time (measured, below).
#
# **What is the slow one waiting for?**

# %% imports
import numpy as np
import torch

from course_lib import Predict, Quiz, count
from course_lib.accounting.hardware import gpu
from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import attention_flops, derived_counts, flash_tile_loads
from course_lib.kernels import ladder as rungs
from course_lib.kernels.tiles import Tiles, tiles_for
from course_lib.style.table import Table

H100 = gpu("H100")


# %% picture [markdown]
# ## The picture: fast hands and slow ones
#
# Go to one desk of lesson 02's workshop: one SM of the GPU (an H100 has 132). At it
# are very fast hands: the *tensor cores*. They multiply tiles, and nothing
# else. Everything else is done by slower hands: fetching tiles, taking
# exponentials, sorting out what is masked.
#
# A kernel is fast if the fast hands are never idle. There are four reasons to
# be idle, and most steps of this lesson remove a part of one or two:
#
# 1. **The tiles are not there yet**: they are still on their way.
# 2. **The slow hands are not done**: exponentials, masks, addresses, the rescaling of O.
#    Those of this tile must be finished before P V can begin.
# 3. **Work nobody ordered**: tiles that are masked as a whole.
# 4. **Empty desks**: an SM has no program, or has finished before the others.

# %% by-hand [markdown]
# ## A number by hand: what must take how long?
#
# One head, N = 8192, d = 128, two bytes an element, one H100 (nominal figures):
#
# - **Products.** 4 N² d = 4 · 67.1 M · 128 = 34 GFLOP. At 989 TFLOP/s: 35 µs.
# - **Exponentials.** N² = 67.1 M. An SM does 16 of them per clock (NVIDIA's CUDA
#   programming guide), so 132 SMs at 1.83 GHz (the clock that this peak implies) do 3.9 T a
#   second: 17 µs.
# - **Bytes, the least.** 4 N d · 2 = 8.4 MB. At 3350 GB/s: 2.5 µs.
#
# So the bytes are no problem any more. But the exponentials take **half as long
# as the products**, though there are 512 times fewer of them. What does that look
# like at one desk?

# %% exponentials
exp_per_s = 132 * 16 * 1.83e9  # SMs x exponentials per clock x clock
rows = []
for d in (64, 128, 256):
    products = attention_flops(8192, 8192, d) / (H100.tflops_half * 1e12)
    exponentials = 8192**2 / exp_per_s
    rows.append((d, products * 1e6, exponentials * 1e6, exponentials / products))
columns = ("d", "products, µs", "exponentials, µs", "exponentials / products")
formats = dict(zip(columns[1:], (".1f", ".1f", ".0%")))
Table(columns, rows, formats, {columns[3]: "flash"})

# %% exponentials-say [markdown]
# The exponentials do not depend on d, the products do. At d = 64 they take as
# long as all products together.

# %% timeline-text [markdown]
# ## The answer: a timeline of one SM
#
# One program, tile after tile: S, the product of Q and K, then its exponentials,
# then P V, and the next tile. While the hands take exponentials, the tensor cores
# have nothing to do. Now let a *second* program share the SM. What changes?

# %% timeline
# @title A picture: what one SM does, tile after tile
from course_lib.figures.overlap import draw_overlap

draw_overlap(d=128, block=64)

# %% timeline-say [markdown]
# One after the other, the tensor cores stand still for a third of the time, by the
# data sheet alone. A suspect: **the exponentials between two products**. The remedy is not only
# to make them cheaper, but to have **something else to multiply** meanwhile.
#
# This picture is computed, and leaves out comparisons, rescales, addresses and copies. Now a
# real kernel: your 7.4, made a little faster (*rung 4*, a step of the ladder that follows).
# Two of its programs share an SM, as in the lower half: each is a *lane* of the next picture,
# a row of bars.

# %% predict-timeline
p_timeline = Predict(
    "8-timeline",
    "Rung 4 on an H100, d = 128, N = 4096, all keys: which share of the tensor cores' peak "
    "does it reach?",
    unit="%",
    most=100,
)
p_timeline

# %% timeline-measured
from course_lib.figures.timeline import draw_timeline, share_of_peak

share = round(100 * share_of_peak("edge_masks"))
p_timeline.reveal(share)
draw_timeline("edge_masks")

# %% timeline-cycles
from course_lib.figures.timeline import cycles

cycles("edge_masks")

# %% timeline-measured-say [markdown]
# **Measured**: a copy of the kernel writes down the SM's clock after each step. Striped blue
# lasts from asking for S until it is there: multiplying or waiting, no clock tells them
# apart. Exponentials and rescaling take twice as long as that, and often both programs
# are at them at once. So between two products stand **this kernel's own exponentials, and
# nearly as long the rescaling of O**.
#
# And the grey bar is three times as long as in the picture above: it holds subtractions and
# sums too, and two programs share the slow hands.

# %% ladder-heading [markdown]
# ## The ladder
#
# Eight kernels, in `course_lib/kernels/`, timed in one run. A program runs as *warps* of 32 threads, here most often 4.
#
# The last column says which of the four reasons to be idle (*The picture*, above) it aims at. The
# words are explained where the rung is (5 and 7 in the optional half); for the next question the reasons are enough.
#
# | rung | its idea | aims at |
# |---|---|---|
# | 1 | your 7.3 with a causal mask: every tile, every mask | |
# | 2 | `exp2` for `exp` | 2, slow hands |
# | **3** | **you are here**: your 7.4, with `exp2`: skip the tiles of the future | 3, work nobody ordered |
# | 4 | mask boundary tiles only (exercise 8.2) | 2, slow hands |
# | 5 | rung 3 with tiles from a table, for other GPUs | |
# | 6 | rung 4 with larger tiles, copied by a unit of its own | 1, tiles on their way; 2 (addresses) |
# | 7 | rung 6, the longest tiles first | 4, empty desks at the end |
# | 8 | one warp only copies, three groups of warps compute, and overlap by hand | 1; 2, by products meanwhile |

# %% ladder-record
record = load_measurements("h100_ladder")
names = [r["way"] for r in record["rows"] if r["way"][0] in "12345678"]
names = list(dict.fromkeys(names))  # rungs, in order


def tflops(way, d=128, n=16384, causal=False):
    """Return the measured TFLOP/s of one way; None if it was not run."""
    key = {"way": way, "d": d, "n": n, "causal": causal}
    rows = (r for r in record["rows"] if key.items() <= r.items())
    return next((row["tflops"] for row in rows), None)


# %% predict-rung
p_rung = Predict(
    "8-rung",
    "Causal, N = 16384, d = 128. Which step above rung 3 gains most?",
    options=[
        "mask boundary tiles only",
        "copies by a unit of their own",
        "the longest tiles first",
        "one warp only for copies, overlap by hand",
    ],
)
p_rung

# %% bars
# @title A picture: how fast each rung is
from course_lib.figures.ladder import draw_rungs

draw_rungs(names)


# %% gains
builds_on = dict(zip(names[1:], names))  # 5 has the kernel of 3, 6 the loops of 4
builds_on |= {names[4]: names[2], names[5]: names[3]}


def gain(rung, causal):
    return tflops(rung, causal=causal) / tflops(builds_on[rung], causal=causal)


def measured(number):
    """Print what one rung gained over the one that it builds on."""
    rung = names[number - 1]
    print(f"rung {number}, measured: {gain(rung, False):.2f}x for all keys, ", end="")
    print(f"{gain(rung, True):.2f}x causal")


# %% gains-table
from course_lib.figures.ladder import gains

gains(builds_on)

# %% reveal-rung
ideas = dict(zip((names[i] for i in (3, 5, 6, 7)), p_rung.options))
best = max(ideas, key=lambda rung: gain(rung, causal=True))
p_rung.reveal(ideas[best], f"{best}: {gain(best, causal=True):.2f} times.")

# %% gains-say [markdown]
# The dotted lines are PyTorch's FA2 and NVIDIA's cuDNN (lesson 07). Causal TFLOP/s count half of
# the FLOPs, whatever the kernel did. These are 16 heads, lesson 07's were 8: compare within a run.
# The step to rung 3, work that is not done, gains more than any above it: you have it.
#
# What is noise? In 15 rounds all kernels took turns, in a new order each time. Without a mask
# rungs 2 to 5 all took 4.5 to 5.0 ms: do not rank them. Causal, rung 3 took 2.56 to 2.59 ms, rung
# 4 2.33 to 2.38: the slowest round of rung 4 beat the fastest of rung 3.

# %% rungs-2-and-3-text [markdown]
# ### Rungs 2 and 3: one instruction, one bound
#
# **Rung 2.** The chip has only 2ˣ, and eˣ = 2^(x log₂ e): `tl.exp` first multiplies each
# score by log₂ e. Rung 2 calls `tl.exp2` and multiplies the *scale* by log₂ e, once.
#
# **Rung 3** changes where a causal loop ends, as 7.4 does: tiles of the future are neither
# loaded nor computed. Without a mask it does what rung 2 does.

# %% rungs-2-and-3
measured(2)
measured(3)

# %% rung-4-text [markdown]
# ### Rung 4: mask boundary tiles only
#
# **Idea.** Two loops: the first over tiles that every row sees whole, without a
# mask; the second over the rest. **Expected.** Most tiles lose one comparison and one
# selection per score. How many tiles?

# %% predict-masked
p_masked = Predict(
    "8-masked",
    "Causal, N = 4096, tiles of 64 × 64. Of the tiles that are loaded, how many need a mask?",
    unit="%",
    most=100,
)
p_masked

# %% masked-tiles
rows = []
for n in (1024, 4096, 16384):
    tiles = derived_counts(n, n, 64, 64, causal=True)
    loaded, masked = tiles["visited_tiles"], tiles["partial_tiles"]
    rows.append((n, loaded, loaded / tiles["t_q"] ** 2, masked, masked / loaded))
columns = ("N", "tiles loaded", "of all", "masked", "of those loaded")
formats = {"N": ",", "tiles loaded": ",", "of all": ".1%", "of those loaded": ".1%"}
display(Table(columns, rows, formats, {"of all": "flash", "of those loaded": "naive"}))
tiles = derived_counts(4096, 4096, 64, 64, causal=True)
p_masked.reveal(
    100 * tiles["partial_tiles"] / tiles["visited_tiles"],
    "One per tile of queries: 64 of 2080.",
)

# %% rung-4
measured(4)

# %% rung-6-text [markdown]
# ### Rung 6: tensor descriptors
#
# **Idea.** Until now all threads compute addresses, one for every 16 bytes. A
# *descriptor* tells the hardware once: here is a tensor, so many rows, this far
# apart. Then one thread asks for a tile, and a unit of its own (TMA, *Tensor
# Memory Accelerator*) copies it into shared memory. Addresses, and the masks of loads
# past the end, disappear from the loop. **Expected.** Less work between two products.

# %% rung-6-gain
measured(6)

# %% rung-6-changes [markdown]
# The gain is of three things: the descriptors, larger tiles, and one instruction for
# s · scale − m, where there were two.

# %% rung-8-text [markdown]
# ### Rung 8: what FlashAttention-3 adds, and a little of 4
#
# 1. **One warp only asks for copies.** Three groups of four warps only compute. Each has 64 query
#    rows of its own, and all read the *same* tiles of K and V.
# 2. **Overlap.** While one group takes exponentials, another has the tensor cores. And inside a
#    group P V of the tile *before* runs while this tile's exponentials are taken. (The price is
#    registers, for two tiles at once.)
# 3. **An old maximum will do** (FlashAttention-4, 2026). m cancels in O ÷ ℓ, whatever it is; it
#    must only keep 2^(s − m) small enough. So m stays until a score lies more than 8 above it.
#    Until then p is at most 2⁸, and O need not be rescaled.
#
# **Expected.** By the data sheet, products and exponentials in turn take 1.5 times as long as
# the products alone: the most that overlapping *these two* can give; two programs on an SM have a
# part of it already. Less rescaling, and copies, come on top. (Below, a lane is a group of warps, or the warp that copies.)

# %% rung-8-timeline
from course_lib.figures.timeline import draw_timeline

display(draw_timeline("specialised"), cycles("specialised"))
measured(8)

# %% rung-8-say [markdown]
# This call reaches nearly two thirds of the tensor cores' peak, rung 4's less than half (the
# pictures' titles). The waits for P V and for K are the shortest of the table. Where rung 4
# rescales its rows of O, rung 8 asks whether it must: that takes less than half as many cycles.

# %% tiles-heading [markdown]
# ## Occupancy, and how to choose tiles
#
# Tiles with more query rows load K and V less often. More keys a tile mean fewer steps, and fewer
# rescales. In lesson 07's kernel 128 × 64 took twice as long as 64 × 64, and spilled. Rung 6 is
# another kernel. (*Stages*: how many tiles of K and V have a place in shared memory, so that the
# next are copied while this one is multiplied.)

# %% predict-tiles
p_tiles = Predict(
    "8-tiles",
    "Rung 6 on the H100, d = 128, N = 16384, all keys, 4 warps. Tiles of "
    "128 × 64 against 128 × 128: which is faster?",
    options=["128 x 64", "128 x 128", "no difference"],
)
p_tiles

# %% measured-tiles
# @title A picture: rung 6 with other tiles
from course_lib.figures.tile_choice import draw_speeds

draw_speeds()


# %% reveal-tiles
from course_lib.figures.tile_choice import descriptor_speeds

speed = descriptor_speeds()
small, large = speed["(128, 64, 4, 2)"], speed["(128, 128, 4, 2)"]
p_tiles.reveal("128 x 64", f"{small:.0f} against {large:.0f} TFLOP/s. Why? X-ray it.")


# %% xray-text [markdown]
# ### X-ray, without a GPU
#
# Here are the two that raced, compiled for an H100, which takes about 10 seconds. *stack B*:
# bytes that a thread spills. (A *block* is CUDA's word for a program.)


# %% xray-tiles
from course_lib.child.xray import xray_launch


def small_and_large(x):
    for block_k in (64, 128):
        tiles = Tiles(128, block_k, num_warps=4, num_stages=2)
        rungs.descriptors(x, x, x, tiles=tiles)


xray_launch(small_and_large, torch.empty(1, 1, 1024, 128).half(), target="H100")

# %% xray-say [markdown]
# A thread has at most 255 registers. The notes (m, ℓ, O) and the scores live in
# them. On 4 warps, 128 threads, O of 128 × 128 numbers is 128 registers a thread. The
# scores of a 128 × 64 tile are 64 more, and it just fits; those of 128 × 128 are 128
# more, 256 in all. What is too much *spills* into memory and comes back in every step.
#
# **Occupancy** is how many warps an SM holds at once: here two programs, 8 warps of at
# most 64. It is limited by registers (65,536 an SM), shared memory (228 KiB an SM, of
# which one program may have 227), and warps. More is not better as such: rung 8 has one
# program an SM, and covers its waiting by hand. In 8.1 you choose from more tiles, for three GPUs.

# %% decide-heading [markdown]
# ## Which attention should you call?
#
# | your case | take | why |
# |---|---|---|
# | plain or causal attention | `torch.nn.functional.scaled_dot_product_attention`. If time matters, **name the backend**: `torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION)`. With FlashAttention-3 or 4 installed: `activate_flash_attention_impl("FA4")` (or `"FA3"`) first | FlashAttention-2 and cuDNN differ by a factor of 1.6 (d = 64) to 1.9 (d = 128) on an H100, N = 8192. By its source of 2026, PyTorch tries cuDNN first on an H100 or a B200 (a newer GPU) if cuDNN is newer than 9.15, else FlashAttention-2 |
# | a rule for pairs or scores: a window, several documents in one row, a number added for the distance, a cap | PyTorch's FlexAttention, under `torch.compile` | you write the rule as a Python function, it makes one kernel of it and skips tiles |
# | N of a few hundred; one query against a long cache | large batches, in a CUDA graph (launches recorded once, sent off together); a decode kernel (lesson 10) | you wait for launches; one query cannot fill 132 SMs |
# | something none of them has | your own kernel, from rung 4 | under 100 lines, and you can count what it does |
#
# The figures behind the first two rows:

# %% decide-numbers
from course_lib.figures.ladder import peers, speeds

display(speeds(["FA2", "cuDNN", "FlexAttention", "4 edge_masks", "flash_attention"]), peers())


# %% decide-say [markdown]
# `flash_attention` and *course* are the course's public function: on an H100, at these sizes, rung
# 8, elsewhere rung 4 with tiles from a table. *FA4* is FlashAttention-4 (2026), written for the
# B200; it runs on an H100 too. A number of this kind holds for one GPU and one version: time
# *your* case.

# %% live-text [markdown]
# ## On your GPU
#
# The first five rungs on your machine, if it has a GPU. Expect other ratios.

# %% live
import triton

if torch.cuda.is_available():
    x = [torch.randn(1, 8, 4096, 64, device="cuda").half() for _ in range(3)]
    flops = attention_flops(4096, 4096, 64, 8, causal=True)
    for number in range(1, 6):
        rung = rungs.RUNGS[number]
        ms = triton.testing.do_bench(lambda: rung(*x, causal=True), return_mode="median")
        print(f"rung {number}: {flops / ms / 1e9:6.1f} TFLOP/s on {torch.cuda.get_device_name()}")
else:
    print("No GPU here: nothing to time.")

# %% shown [markdown]
# ## What was shown, and what was not
#
# **Shown.** Eight kernels compute the same thing; on one H100, at d = 128 and
# N = 16384, the last is 1.8 times as fast as the first for all keys, and 3.9 times
# for causal attention. Rung 4 is 2.0 times rung 2 there: work that is not done.
#
# **Not shown.** That the order of the rungs is the same on your GPU. That the gains
# multiply: a step changes what the next one is worth. That the rest of the gain is
# waiting: clocks were read in rungs 4 and 8 alone. Where this lesson names no reason, none was
# measured, and FlashAttention-3 itself was not timed. And nothing here makes a model as a whole as many times faster: attention is a part
# of its time (Amdahl's law, optional in 02).

# %% quiz-bigger
Quiz(
    "Tiles of 128 x 128 on 4 warps were slower than 128 x 64. What did the x-ray show of them?",
    options=[
        ("More FLOPs.", False, "The same FLOPs, in fewer steps."),
        ("They spill.", True, "255 registers a thread is the limit. The rest goes to memory."),
        ("One program an SM, not two.", True, "Their shared memory leaves no room for another."),
        ("More launches.", False, "One launch."),
    ],
)

# %% quiz-exp
Quiz(
    "At d = 128 the tensor cores stand still for a third of the time, if products and "
    "exponentials come one after the other. And at d = 256?",
    answer=20,
    tolerance=0.05,
    unit="%",
    explanation="Twice the FLOPs, as many exponentials: a quarter of the products' time.",
)

# %% quiz-heads
Quiz(
    "Batch 1, 8 heads, N = 1024, tiles of 128 queries: 64 programs on 132 SMs. What helps?",
    options=[
        ("Tiles of 256 queries.", False, "32 programs: even fewer desks are busy.", 8 * 1024 / 256),
        (
            "Tiles of 64 queries.",
            True,
            "128 programs fill 128 SMs. K is loaded twice as often.",
            8 * 1024 / 64,
        ),
        ("More stages.", False, "They shorten the waiting of an SM that works.", 8 * 1024 / 128),
    ],
    unit="programs",
)

# %% next [markdown]
# ## Now write it
#
# 8.1 picks tiles from x-rays, 8.2 splits the loop.
#
# **Next:** Part I and its speed end here. Part II begins with the backward pass, for which
# the kernel stores `lse`. What follows below is optional.
#
# **To read:**
# - Dao: *FlashAttention-2* (2023), arXiv:2307.08691, sections 3.1 to 3.3.
# - Shah et al.: *FlashAttention-3* (2024), arXiv:2407.08608, section 3.
# - `benchmarks/NOTES.md` in the course's repository: what was tried on the H100 and did not pay.

# %% optional [markdown]
# ## Optional: the second half
#
# The rungs' code, what else FlashAttention-2 and 3 changed, and where bytes go when N
# grows. Part II needs none of it. Read what you are curious about, in any order; run
# the cells above first.

# %% diff
import difflib
import inspect


def show_change(before, after):
    """Print the lines in which two kernels differ, docstrings left out."""
    old, new = (inspect.getsource(x.fn).splitlines() for x in (before, after))
    for line in difflib.ndiff(old, new):
        if line[0] in "+-" and '"""' not in line and "def " not in line:
            print(line)


# %% rung-2-text [markdown]
# ### Rungs 1 to 3, line by line
#
# To rung 2 the loop's body moves into `add_keys`. Look there for `tl.exp2`, where rung 1 has
# `tl.exp`; the launcher gives `scale * LOG2_E`. `finish` (not printed) multiplies m and lse
# by `LN_2` in the end; rung 1 divides m by it.

# %% rung-2
show_change(rungs.by_mask_kernel, rungs.base_two_kernel)
print(inspect.getsource(rungs.add_keys.fn))

# %% rung-3-text [markdown]
# To rung 3 the loop has another end: `last_key(...)` is your `end` of 7.4, the first key that no
# row of the tile sees.

# %% rung-3
show_change(rungs.base_two_kernel, rungs.skip_tiles_kernel)

# %% rung-4-change [markdown]
# ### Rung 4, line by line
#
# It is your 8.2b, as the ladder has it: `first_hidden` is your `boundary`. Solve that first,
# then write `True`.

# %% rung-4-lines folded=false
solved = False
if solved:
    show_change(rungs.skip_tiles_kernel, rungs.edge_masks_kernel)

# %% rung-5-text [markdown]
# ### Rung 5: tiles, warps and stages from a table
#
# On the H100 the table wins nothing: it holds the very tiles that the first rungs
# have. That is no reason to leave the table out: on a T4, an old, small GPU, those tiles spill.

# %% rung-5
x = torch.empty(1, 1, 1, 128, dtype=torch.float16)
for name, sm in (("T4", 75), ("A100", 80), ("H100", 90)):
    for causal in (False, True):
        print(f"{name:5} causal {causal!s:5}", tiles_for(x, causal=causal, sm=sm))
measured(5)

# %% rung-6-code-text [markdown]
# ### Rung 6: its loop, and its tiles
#
# How much is the descriptors', how much the larger tiles'? Another record tells the two apart.

# %% rung-6
print(inspect.getsource(rungs.block.fn))
source = inspect.getsource(rungs.descriptors_kernel.fn)
start = source.index("    for start in range(0, boundary")
print(source[start : source.index("    if not WHOLE")])
tuning = load_measurements("h100_tiles")


def tuned(way, causal, d=128, n=16384):
    """Return the TFLOP/s of one kernel and its tiles; None if it was not run."""
    key = {"way": way, "n": n, "d": d, "causal": causal}
    return next((r["tflops"] for r in tuning["rows"] if key.items() <= r.items()), None)


small, large = "(64, 64, 4, 3)", "(128, 64, 4, 2)"
for causal in (False, True):
    ways = (f"edge_masks {small}", f"descriptors {small}", f"descriptors {large}")
    found = [f"{way} {tuned(way, causal):.0f}" for way in ways]
    print(f"causal {causal!s:5}:", ", ".join(found))

# %% rung-6-say [markdown]
# Most of the gain is there with the old tiles: descriptors, and one instruction that scales
# and subtracts; which of the two, this does not say. The larger tile adds a little. (The causal line
# starts the long tiles first already, which is rung 7.)

# %% rung-7-text [markdown]
# ### Rung 7: the long tiles first
#
# **Idea.** In a causal grid the last tile of queries has the most keys. If it
# starts last, one SM works on while the others have gone home (reason 4). So
# number the tiles backwards, and take those of four heads together, so that short
# tiles come last. **Expected.** Nothing without a causal mask, a little with it,
# more where there are few programs for the 132 SMs. Let us compute it.


# %% rung-7
def finish_time(work, workers):
    """Give each job to the worker that is free first; return the end."""
    free = np.zeros(workers)
    for job in work:
        free[free.argmin()] += job
    return free.max()


rows = []
for places in (132, 264):  # one program on an SM, or two that share it
    for heads in (8, 16, 64):
        tiles = np.arange(1, 129)  # tile t of 128 has t tiles of keys; head after head
        ideal = tiles.sum() * heads / places
        four = np.tile(np.repeat(tiles[::-1], 4), heads // 4)
        orders = (np.tile(tiles, heads), np.tile(tiles[::-1], heads), four)
        rows.append((places, heads, *(finish_time(work, places) / ideal for work in orders)))
columns = ("places", "heads", "as numbered", "long first", "four heads together")
note = "The end of the last program, as a multiple of the ideal."
display(Table(columns, rows, dict.fromkeys(columns[2:], ".3f"), note=note))
measured(7)  # 16 heads

# %% rung-7-say [markdown]
# The clock gives a part of what the sum promises for 16 heads. The sum knows how many tiles a
# program has, and nothing else.

# %% rung-8-code-text [markdown]
# ### Rung 8: its code, its groups
#
# Triton 3.6 could not do this on an H100 by itself, so rung 8 is written in *Gluon*, a lower
# level of Triton, which still lives in `triton.experimental`: `gluon_forward.py`. Its warps
# talk through *barriers* in shared memory: "this tile is full", "this tile may be
# overwritten".
#
# How many groups, tiles of how many keys, and which overlap? Rung 8 has what won here.

# %% rung-8-groups
rows = []
for d, n in ((128, 16384), (64, 4096)):
    for groups, keys, stages in ((2, 128, 3), (3, 64, 3), (3, 128, 2)):
        for overlap in (True, False):
            speed = tuned(f"specialised ({groups}, {keys}, {stages}, {overlap})", False, d, n)
            if speed:
                inside = "inside too" if overlap else "between groups only"
                rows.append((d, n, groups, keys, inside, speed))
head = ("d", "N", "groups", "keys", "overlap", "TFLOP/s")
Table(head, rows, {"N": ",", "TFLOP/s": ".0f"}, {"TFLOP/s": "flash"})

# %% rung-8-groups-say [markdown]
# At d = 128 the table has no three groups with 128 keys. At d = 64 they win, and the overlap
# inside gains nothing. (Three groups of one program share a copy of K and V; of three
# programs each makes its own.)

# %% rung-8-lists-text [markdown]
# **Come and go, or stay?** A program that has done its rows ends, and the next one begins:
# it waits for its Q, then for its first K. Or programs *stay*, one on each SM, each with a
# list of tiles, and ask for the next Q while the last O leaves. But a list is made
# beforehand, and who has the longest ends last. The table has both, at d = 96.

# %% rung-8-lists
found = {}
for row in load_measurements("h100_short_keys")["rows"]:
    if row["d"] == 96:
        key = "causal" if row["causal"] else "all keys"
        found.setdefault((row["n"], key), {})[row["way"]] = row["median_us"]
rows = [(*key, us["8, a tile each"], us["8, lists"]) for key, us in sorted(found.items())]
columns = ("N", "mask", "a tile each, µs", "lists, µs")
Table(columns, rows, {"N": "d"} | dict.fromkeys(columns[2:], ",.0f"))

# %% rung-8-lists-say [markdown]
# Each time 16384 tokens, d = 96. Our reading: with few keys, beginning and ending is much of
# the work. `by_hand_for` in `course_lib/kernels/tiles.py` weighs the two.

# %% fp8-text [markdown]
# ### Numbers of 8 bits (fp8): rotate, then round
#
# FlashAttention-3 has another idea that no rung of ours has. The tensor cores multiply
# 8-bit floats twice as fast as 16-bit ones. The price is rounding: 3 bits of fraction.
# Some entries of Q and K are much larger than the others (*outliers*), and where
# two large ones meet, their rounding error is large.
#
# *Incoherent processing* (the paper's name) multiplies Q and K by one random orthogonal matrix M
# before rounding. The scores do not change: (Q M)(K M)ᵀ = Q M Mᵀ Kᵀ = Q Kᵀ. But an
# outlier is spread over all d columns. (Nothing is put in another order.)

# %% fp8
draw = np.random.default_rng(8)


def with_outliers(n=512, d=128):
    spikes = 10 * draw.standard_normal((n, d)) * (draw.random((n, d)) < 0.001)
    return draw.standard_normal((n, d)) + spikes


def to_fp8(x):
    scale = np.abs(x).max() / 448  # 448 is the largest number of this format
    small = torch.from_numpy(x / scale).float().to(torch.float8_e4m3fn)
    return small.double().numpy() * scale


hadamard = np.array([[1.0]])
while len(hadamard) < 128:
    hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
M = draw.choice([-1, 1], (128, 1)) * hadamard / 128**0.5  # orthogonal

# %% fp8-run
draw = np.random.default_rng(8)
errors = {"as they are": [], "rotated": []}
values = draw.standard_normal((512, 128))  # V stays exact here


def rms(x):
    """Return the root mean square."""
    return np.sqrt((x**2).mean())


for _ in range(15):
    a, b = with_outliers(), with_outliers()
    for name, turn in (("as they are", np.eye(128)), ("rotated", M)):
        s = to_fp8(a @ turn) @ to_fp8(b @ turn).T / 128**0.5
        right = a @ b.T / 128**0.5
        outputs = [torch.from_numpy(x).softmax(1).numpy() @ values for x in (s, right)]
        found = [np.abs(s - right), np.abs(outputs[0] - outputs[1])]
        errors[name].append([f(e) for e in found for f in (rms, np.max)])
rows = [(name, *np.median(found, 0)) for name, found in errors.items()]
columns = ("", "scores: rms", "scores: worst", "output: rms", "output: worst")
formats = dict(zip(columns[1:], (".3f", ".2f", ".4f", ".3f")))
Table(columns, rows, formats, dict.fromkeys(columns[1:], "naive"))

# %% fp8-say [markdown]
# Look at the scores first. Their mean error stays: fp8 rounds each number by a
# share of itself, so the mean error goes with the length of a row, and a rotation
# keeps lengths. The **worst** error falls. Softmax takes exponentials, so the worst
# decides, and the error of the *output* falls too. This ran on your CPU: it says
# something about errors, nothing about speed. The FlashAttention-3 paper reports
# 2.6 times less error than a plain fp8 kernel, by a rotation *and* one scale a
# block, and close to 1.2 PFLOP/s on an H100.

# %% roofline-text [markdown]
# ### Where do we stand under the roof?
#
# The roofline of lesson 02, with two kernels measured on the H100. A hollow mark stands at
# the FLOPs per byte that a kernel *loads*: rung 1 has 64 query rows in a tile, rung 8 has 192.
# The solid mark stands at the bytes that HBM really moved, by hardware counters. Before you
# read the chart: how far below the flat roof is the last rung?

# %% roofline-chart
from course_lib.widgets import RooflineChart

chart = RooflineChart(n=16384, d=128, heads=16, block_q=128)
counters = load_measurements("h100_dram_traffic")["rungs"]
for name, block_q, way in (
    ("rung 1, all tiles, all masked", 64, "1 by_mask"),
    ("rung 8, one warp only copies", 192, "8 specialised"),
):
    same = RooflineChart(n=16384, d=128, heads=16, block_q=block_q)
    loads = same.intensity("flash prefill, tile loads")
    counted = [row for row in counters if row["kernel"] == way]
    hbm_gb = np.median([row["dram_gb"] for row in counted])
    intensity = attention_flops(16384, 16384, 128, 16) / hbm_gb / 1e9
    chart.add_measurement(name, intensity=intensity, tflops=tflops(way), loads=loads)
chart


# %% roofline-say [markdown]
# Were every load to come from HBM, no kernel could be faster than its hollow mark. But HBM
# moved 0.28 GB of the 34 GB that rung 1 loads, and 0.76 GB of the 12 GB of rung 8: caches
# answered the rest. So memory's roof is far away, and arithmetic's is the limit of both. L2 was
# asked for 32 GB by rung 1 and for 11 by rung 8. (Which of this costs rung 1 its time was not
# measured.) From rung 1 to rung 8 there is a factor of 1.8, and from rung 8 to the flat roof one
# of 1.3.

# %% moves [markdown]
# ### FlashAttention-2: three moves
#
# Three changes made the second version (2023) about twice as fast as the first.
# Your kernel has the first two, and the compiler makes the third.
#
# **Move 1: divide once, at the end.** The first version kept O divided by ℓ
# after every tile. Dividing is work for the slow hands. With 8192 keys in tiles
# of 64 that is 128 divisions of each element of O in place of one.
#
# **Move 2: parallel over the sequence.** One program per head leaves most of
# the GPU idle. One program per *tile of queries* does not. (Tillet's Triton kernel
# did this first, and swapped the loops, says the paper's section 3.2.)

# %% predict-heads
p_heads = Predict(
    "8-heads",
    "32 heads, batch 1, one program per head, an H100 with 132 SMs. Which share of the SMs works?",
    unit="%",
    most=100,
)
p_heads

# %% reveal-heads
# a wave: one program on every SM (where two share an SM, as on rung 7, two)
rows = []
for name, programs in (("one per head", 32), ("one per tile of 128", 32 * 64)):
    waves = -(-programs // H100.sms)
    rows.append((name, programs, waves, programs / (waves * H100.sms)))
columns = ("program", "programs", "waves", "places filled")
display(Table(columns, rows, {"programs": ",", columns[3]: ".1%"}, {columns[3]: "flash"}))
p_heads.reveal(
    100 * 32 / H100.sms,
    "A program runs on one SM. 32 programs cannot use more than 32 of them. "
    "With N = 8192 in tiles of 128 there are 64 times as many.",
)

# %% moves-two [markdown]
# **Move 3: split Q, not K, over the warps.** How do a program's four warps share a tile of
# 64 queries and 64 keys?
#
# - **Split K** (the first version): each warp takes 16 *keys*, and has a part of O for
#   **every** query. The parts are added up through shared memory, in every tile.
# - **Split Q** (FlashAttention-2): each warp takes 16 *queries*. Nothing is added up.

# %% split-q
# @title A picture: what each warp has of S and O
from course_lib.figures.warps import draw_split

draw_split(block_q=64, block_k=64, d=128)

# %% moves-three [markdown]
# In Triton you do not write this: the compiler shares out the tile.

# %% coalescing-heading [markdown]
# ### Coalescing and banks: as far as Triton lets you
#
# Memory is read through L2 in *sectors* of 32 bytes. A warp's 32 threads issue one load
# together. If neighbours read neighbouring addresses, few sectors are needed:
# the load is *coalesced*.
#
# Many texts draw it as one row per thread: "thread 0 reads row 0, thread 1 reads
# row 1". That picture shows the **strided** case, the bad one. Count it.


# %% sectors
def sectors(addresses):
    return len(np.unique(addresses // 32))


thread = np.arange(32)
row_bytes = 128 * 2  # d = 128, fp16
print("thread t reads element t of one row:", sectors(thread * 2), "sectors for 64 bytes")
print("thread t reads element 0 of row t:  ", sectors(thread * row_bytes), "sectors for 64 bytes")

# %% coalescing-triton [markdown]
# 1024 bytes moved in order to use 64: sixteen times as many.
#
# In Triton you never say which thread reads what. You give a block of addresses,
# and the compiler finds a layout in which neighbours read neighbours. Your part
# is to let it *see* that the addresses are neighbours: a column stride of 1 that
# it knows, row strides that it knows to be multiples of 16. Here are two copies
# of a tile, compiled for an H100 now, on your machine (about 10 seconds). The second takes its
# column stride as an argument. (We call it with 3: a stride of 1 Triton would
# build into the code.)


# %% two-copies
import triton
import triton.language as tl


@triton.jit
def known_stride(x, y, row, B: tl.constexpr, D: tl.constexpr):
    at = tl.arange(0, B)[:, None] * row + tl.arange(0, D)[None, :]
    tl.store(y + at, tl.load(x + at))


@triton.jit
def free_stride(x, y, row, col, B: tl.constexpr, D: tl.constexpr):
    at = tl.arange(0, B)[:, None] * row + tl.arange(0, D)[None, :] * col
    tl.store(y + at, tl.load(x + at))


# %% xray-copies
def copies(x, y):
    known_stride[(1,)](x, y, 128, B=64, D=128)
    free_stride[(1,)](x, y, 128, 3, B=64, D=128)


x = torch.empty(64 * 128 * 3).half()
for ray in xray_launch(copies, x, x, target="H100"):
    loads = ray.instructions["loads"]
    print(f"{ray.kernel:13} {loads:3} load instructions a thread for 16 KiB")

# %% banks-text [markdown]
# Eight numbers per load against one. That is the whole of coalescing as far as
# Triton is concerned.
#
# **Banks.** Shared memory has 32 banks, 4 bytes wide. If two threads of a warp
# want different words of one bank, one of them waits. A tile with rows of 256
# bytes read *down a column* hits one bank 32 times. The remedy is to store row r
# shuffled by r (*swizzling*).

# %% banks
row, word = np.arange(32), 5  # 32 threads read word 5 of 32 rows of 64 words
# ^ is "exclusive or", bit by bit: it shuffles the words of a row by the row's number
plain = (row * 64 + word) % 32
swizzled = (row * 64 + (word ^ row)) % 32
for name, bank in (("plain", plain), ("swizzled", swizzled)):
    print(f"{name:9} most words asked of one bank: {np.bincount(bank).max()}")

# %% banks-say [markdown]
# In Triton the compiler decides how a tile lies in shared memory. There is nothing for
# you to write. If you ever write CUDA, there is.

# %% counters-heading [markdown]
# ### Model, ledger, counters: one chart
#
# Three ways to know how many bytes move:
#
# - the **model** predicts: the least, and the tile loads (lesson 04);
# - the **ledger** counts loads and stores of a kernel, exactly, at small N;
# - **hardware counters** measure what went from DRAM, and what was asked of L2.
#
# First eager attention, kernel by kernel, N = 8192, 8 heads, d = 128.

# %% naive-counters
from course_lib.figures.naive_steps import formula_and_counters, six_trips_over_n

dram = load_measurements("h100_dram_traffic")
display(formula_and_counters(), six_trips_over_n())


# %% flash-ledger-text [markdown]
# From N = 4096 on eager attention does what the model says. Below, DRAM sees less; our
# reading: L2 holds part of the N × N grids. Now flash. At small N the ledger
# counts rung 3 here, on your machine; at large N the counters of the H100 speak,
# for three kernels (*keys from the end*: its programs walk the keys backwards): PyTorch's FlashAttention-2 (*SDPA flash*), lesson 07's kernel
# with its 64 query rows (*plain kernel*), and the course's public function
# (*flash_attention*, at d = 128 on an H100: rung 8). Predict first.

# %% predict-drift
ordered = {
    r["longest_first"]: r["dram_gb"]
    for r in dram["orders"]
    if r["n"] == 131072 and r["causal"] and r["together"] == 1 and not r["from_end"]
}
p_drift = Predict(
    "8-drift",
    "Causal, N = 131072, 8 heads, a kernel of ours that takes one head after the other, short "
    f"tiles first: {ordered[False]:.0f} GB from DRAM. Start the long tiles first, and nothing "
    "else: where does that number go?",
    options=[
        "to about as much",
        "to about two thirds",
        "to about a tenth",
        "to less than a thirtieth",
    ],
)
p_drift

# %% flash-ledger
counted, rows = {}, []
for n in (256, 512):
    x = torch.randn(1, 8, n, 128).half()
    counted[n] = count(rungs.skip_tiles, x, x, x, tiles=Tiles(128, 128)).total
    model = flash_tile_loads.bytes(n=n, d=128, heads=8, block_q=128, lse=True)
    rows.append((n, counted[n], model))
columns = ("N", "bytes in the ledger", "bytes of the model")
Table(columns, rows, dict.fromkeys(columns[1:], ","))

# %% counters-chart
# @title A picture: the bytes that counters saw, over N
from course_lib.figures.counters import draw_counters

draw_counters(counted)


# %% reveal-drift
p_drift.reveal(
    "to less than a thirtieth",
    f"From {ordered[False]:.1f} to {ordered[True]:.2f} GB, and not one load fewer.",
)

# %% drift-say [markdown]
# What was **asked of L2** lies near the upper line, the tile loads, from N = 4096 on. What came
# from **DRAM** is at first *less* than the lower line, though no kernel can move less: at N = 2048
# by a quarter, as much as O. Our reading: O still lies in L2 when the count ends. (*SDPA flash*
# lies above at N = 1024: there it is two kernels, lesson 02.) Then DRAM leaves the lower line as N
# grows. Our reading, as in lesson 04:
#
# - **K and V outgrow L2.** One head's K and V at N = 131072 are 64 MiB; this L2
#   holds 50. A tile that was read is gone before the next program wants it,
#   unless programs read the *same tile at the same time*.
# - **Without a mask they do**: one fetches, the others find it in L2. (Not always: the table
#   below has two rows without a mask that fetch much more.)
# - **Causal programs drift apart.** When a short one ends, its SM starts another, at key 0,
#   while its neighbours are far along:

# %% drift-picture
# @title A picture: programs in step, and programs that drift
from course_lib.figures.drift import draw_drift

draw_drift(tiles=12, sms=4)

# %% order-say [markdown]
# So the **order of programs** matters. Rung 8 takes only as many heads at a time
# as L2 can hold K and V of, but always at least one, and the longest tiles first
# (`work_item`). The next lines are of a kernel made for this question: rung 3's
# arithmetic, its programs in other orders. *Side by side* means that programs of
# so many heads take turns.

# %% better-order
from course_lib.figures.dram import orders

orders()


# %% better-order-say [markdown]
# No order is best for all. Longest first helps causal attention most. For all keys, side by side,
# another H100 gave quite different bytes: do not build on those two rows. And for all keys
# rung 8 takes *more* from DRAM than the others from N = 8192 on (the upper chart), and is the
# fastest all the same.

# %% quiz-drift
Quiz(
    "Causal flash attention can read far more from DRAM than the same call without a mask. "
    "Which reading fits the counters?",
    options=[
        ("It loads more tiles.", False, "It loads about half of them."),
        (
            "Its programs read different keys at the same time, and L2 cannot hold all.",
            True,
            "In step they share a tile; apart, each fetches its own. No counter shows it directly.",
        ),
        ("Masks are read from memory.", False, "They are computed from row and key numbers."),
    ],
)

# %% regimes-heading [markdown]
# ### When none of this matters
#
# Lesson 02 had three regimes: overhead, traffic, arithmetic. Here they are in
# one line per N, on the H100 (8 heads, d = 128, host time included; *flash* is
# PyTorch's FlashAttention-2, not the kernel that lesson 07 timed).

# %% regimes
from course_lib.figures.regimes import beside_the_products

beside_the_products()


# %% regimes-say [markdown]
# Up to N = 1024 eager's call takes as long as at N = 64: the time of starting it. There no rung of
# the ladder helps: fewer launches do (one batch in place of many calls, CUDA graphs).
# Further down flash is faster, and takes a multiple of what the products alone need: there
# the ladder decides.

# %% compile-heading [markdown]
# ### Could the compiler have done it?
#
# The same shape once more at N = 8192, timed in another run: compare within the
# picture. *SDPA flash* is the call of the table above.

# %% compile-chart
# @title A picture: four versions, their time and their memory
from course_lib.figures.fusion import draw_fusion

draw_fusion()


# %% compile-say [markdown]
# Left to itself, `torch.compile` *recognises* the three lines and puts a ready
# fused kernel in their place, here cuDNN's: a pattern written by people. With the pattern
# switched off it fuses what a compiler can fuse, scale and softmax, and stops at
# the products. The step from 4 trips to none needs the online softmax, and that
# is algebra, not fusion.

# %% backward-text [markdown]
# ### What lse buys: the backward pass
#
# Training runs the kernel backwards. Two and a half times the FLOPs, and the same
# question: who stores P? Nobody. With `lse`, P = exp(S − lse) is computed again,
# tile by tile. The second thing that the backward needs is one number
# per row, delta = Σ dO · O. Lesson 09 takes both apart, and you write it.
#
# The course has two. *The same every time* is lesson 09's: every score is computed
# twice, and each gradient is stored by one program. *course* computes it once, as the
# others do; then many programs must add to dQ, in whatever order they come.

# %% backward-bars
back = load_measurements("h100_backward")
rows = [r for r in back["rows"] if r["d"] == 128]
cells = [(r["way"], "causal" if r["causal"] else "all keys", r["tflops"]) for r in rows]
columns = ("backward", "mask", "TFLOP/s")
note = f"Measured: {back['device']}, N = 8192, d = 128, bf16."
Table(columns, cells, {"TFLOP/s": ".0f"}, {"TFLOP/s": "flash"}, note=note)
