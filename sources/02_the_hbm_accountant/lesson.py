# %% title [markdown]
# # 02 · The HBM accountant
#
# **You need:** lesson 01 (the three lines of attention and their trips). No GPU
# and no Triton.
#
# **You will be able to:** say how many bytes an attention function moves and
# how few any kernel could; compute an intensity and read a roofline; tell
# whether overhead, traffic or arithmetic is the limit; say what fusion does
# and where it stops.
#
# **Time:** 47 minutes for this lesson, 31 for its four exercises; 10 more for what is
# optional, at the end.

# %% question [markdown]
# ## The question
#
# Lesson 01 showed what naive attention does with S, the matrix of scores: it
# writes S to the GPU's large memory, fetches it again, and throws it away in the
# end.
#
# An accountant asks three things about that. How many bytes are moved? How many
# *must* be moved, whatever the program? And do bytes cost time at all?

# %% imports
import torch
import torch.nn.functional as F

from course_lib import EagerLedger, Predict, Quiz
from course_lib.accounting.format import bytes_decimal
from course_lib.accounting.hardware import gpu
from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.traffic import eager_six_trips, flash_compulsory, naive_four_trips
from course_lib.style.table import Table
from course_lib.widgets import HBMAccountant, Race, RooflineChart

H100 = gpu("H100")


# %% desks [markdown]
# ## The picture: the workshop from inside
#
# In lesson 01 the chip was a **workshop**, and HBM the **warehouse** at the other
# end of one road. Now we go in. There are many **desks**, and at each desk
# **hands**: the arithmetic units. A desk is small. All desks share one **shelf**.
#
# The hands are fast. If nothing lies on the desk, they are idle, and the
# workshop does not get faster by hiring more. Programmers call such work
# **memory-bound**.
#
# The translation, once and for all:
#
# | workshop | GPU |
# |---|---|
# | the hands at one desk | the arithmetic units of a *streaming multiprocessor* (SM); an H100 has 132 |
# | the desk | the SM's registers and shared memory, on the chip |
# | the shelf | the L2 cache, on the chip |
# | the warehouse | HBM, the large memory beside the chip |
# | one work order | one *kernel*: a program that is started on the GPU |
#
# How large is each place, and how fast?

# %% hierarchy
from course_lib.figures.hierarchy import places

places()


# %% hierarchy-say [markdown]
# Sizes are for the whole chip. *Nominal* is the vendor's figure, *derived* is
# computed from vendor figures. Where nothing is published, nothing is printed. (The A100,
# the H100's forerunner, is here because its L2 has a published speed.)
#
# The fast places are small: tens of MiB. And each step away from the arithmetic
# is several times slower.

# %% by-hand [markdown]
# ## Three numbers by hand
#
# **1. Does S fit on the chip?** N = 8192 tokens, 2 bytes a score:
#
# 8192 × 8192 × 2 bytes = 134 217 728 bytes = 128 MiB, for one head.
#
# Registers, shared memory and L2 of an H100 are 33, 29 and 50 MiB. It does not
# fit, not even into all of them together, and a layer with 8 heads has eight such S.
# So at most a small part can stay on the chip from one pass to the next: nearly every pass
# is a trip to or from HBM. (How nearly, hardware counters say below.)

# %% to-scale
# @title A picture: the memories of an H100 and one S, at one scale
from course_lib.figures.memory_scale import draw_scale

draw_scale(n=8192, b=2)

# %% by-hand-more [markdown]
# **2. How much work does a byte have to bring?** In products of 16-bit matrices an H100 can do
# 989 × 10¹² floating-point operations (FLOPs) a second, and fetch 3350 × 10⁹ bytes:
#
# 989 000 ÷ 3350 ≈ 295 FLOPs in the time of one byte (both numbers divided by 10⁹).
# (Bytes a second are the memory's *bandwidth*; 10¹² FLOPs a second are a TFLOP/s.)
#
# A matrix product with fewer than 295 FLOPs per byte leaves these hands idle for a part of the
# time. The number is called the **ridge**. You will see why in a picture below.
#
# **3. What does softmax bring?** Per score: read 2 bytes, write 2 bytes, and
# do about five operations (maximum, minus, exp, add, divide; lesson 01 counted the division
# by √d as the sixth). That is about 1 FLOP per byte, far below 295. (Softmax is no matrix
# product: slower hands do it. Their ridge is lower, and 1 is far below that one, too.)

# %% three-prices [markdown]
# ## Three prices for the same answer
#
# Per head, with N queries and keys, d numbers each, b bytes a number:
#
# | price | bytes | what it is |
# |---|---|---|
# | naive, 4 trips | 4 N² b + 4 N d b | the formula of lesson 01: write S, read S, write P, read P |
# | eager, 6 trips | 6 N² b + 4 N d b | what PyTorch makes of the same lines |
# | **the least** | 4 N d b | read Q, K, V, write O, once each |
#
# *Eager* PyTorch makes a kernel of each operation. The division by √d is a kernel of its
# own: it reads S once more and writes it once more, two trips.
#
# The third line is a **lower bound**. It describes no program. The inputs are in the
# warehouse, the output must end there, so this much must travel, whoever works. (In code and
# pictures it is called *compulsory*, or *at best*: what FlashAttention would move if it
# never loaded anything twice. It does load K and V more than once: lesson 04.) Let us count
# the real thing.


# %% counted-code
def count(attention, n=512, d=64, heads=2):
    """Run attention once on the CPU and keep its books."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, heads, n, d)  # each (1, heads, n, d)
    with EagerLedger(q=q, k=k, v=v) as ledger:
        attention(q, k, v)
    return ledger


def eager(q, k, v):
    s = q @ k.mT / q.shape[-1] ** 0.5  # (1, heads, n, n)
    return torch.softmax(s, dim=-1) @ v  # (1, heads, n, d)


# %% predict-flops
p_flops = Predict(
    "2-flops",
    "PyTorch's fused attention gives the same answer. How many FLOPs of the "
    "two matrix products does it save?",
    options=["none", "about half", "nearly all"],
)
p_flops

# %% counted folded=true
# @title A table: what the ledger counts, beside the models
from course_lib.attention.naive_eager import naive_eager_four_trips

shape_512 = {"n": 512, "d": 64, "heads": 2, "b": 4}
s_bytes = 2 * 512 * 512 * 4  # both heads, fp32
fused, rows = F.scaled_dot_product_attention, []

for name, attention, model in (
    ("eager, counted", eager, eager_six_trips.bytes(**shape_512)),
    ("as in 1.4, counted", naive_eager_four_trips, naive_four_trips.bytes(**shape_512)),
    # lse: a number for each row that a fused kernel writes, too (lesson 03)
    ("fused, booked", fused, flash_compulsory.bytes(lse=True, **shape_512)),
):
    book = count(attention)
    rows.append((name, book.trips(s_bytes), book.total / 1e6, model / 1e6, book.flops / 1e9))
names = ("", "trips", "ledger MB", "model MB", "GFLOP")
Table(names, rows, dict.fromkeys(names[2:], ".3f"), dict.fromkeys(names[2:4], "naive"))


# %% reveal-flops
p_flops.reveal(
    "none",
    "A score is d products and d sums: 2 d FLOPs. There are N² of them, and the second "
    "product takes as many: 4 N² d a head, however they are cut. Every score is computed, "
    "every value weighted. Fused attention saves trips.",
)

# %% counted-say [markdown]
# The first two lines were **counted**: the ledger saw every tensor that each
# operation read and wrote. For `eager` model and count are the same number. A program as
# in exercise 1.4 makes the four trips, and moves half a MB more than the model: a small
# matrix more is read and written.
#
# The last line was *booked*, its FLOPs too. Nothing can look inside a fused operation
# from outside, so the ledger enters the lower bound and the formula.

# %% factor [markdown]
# ## How much less is the least?
#
# Divide the first price by the third:
#
# (4 N² b + 4 N d b) ÷ (4 N d b) = N/d + 1
#
# 4, b and one N cancel in the first term; the second is the least itself, so it gives 1.

# %% predict-factor
p_factor = Predict(
    "2-factor",
    "N = 4096, d = 128. How many times the fewest possible bytes does naive attention move?",
    unit="x",
    least=1,
)
p_factor

# %% reveal-factor
shape_4096 = {"n": 4096, "d": 128, "heads": 8, "b": 2}
four_trips = naive_four_trips.bytes(**shape_4096)
once_each = flash_compulsory.bytes(**shape_4096)
factor = four_trips / once_each
p_factor.reveal(
    factor,
    f"S and P make four trips: N / d = 4096 / 128 = {factor - 1:.0f} times the bytes of Q, K, V and O, "
    "which add 1 more. "
    f"With 8 heads: {bytes_decimal(four_trips)} and {bytes_decimal(once_each)}.",
    sizes={"S and P": factor - 1, "Q to O": 1},
    one="the fewest possible",
)

# %% accountant [markdown]
# ## The instrument
#
# The three prices as areas at one scale, one square for each trip of the scores. A row is as
# long as its bytes, and so as the [time](#fac-accountant-time) that they take at least on an
# H100. (FLOP/byte, *launches* and what *sets the pace* are told further down.)

# %% accountant-widget
HBMAccountant(
    n=4096,
    models=["naive_four_trips", "eager_six_trips", "flash_compulsory"],
    heads=8,
)

# %% accountant-say [markdown]
# Move three things. (A link below marks the part that it speaks of.)
#
# - Double [N](#fac-accountant-n). The picture zooms out, and a dashed square
#   shows what S was. The [least](#fac-accountant-flash_compulsory) doubles, the
#   [naive](#fac-accountant-naive_four_trips) bytes become four times as many.
# - Make N as small as d: a strip is as large as S, and
#   [over N](#fac-accountant-over-n) the lines come near each other.
# - Set the [GQA ratio](#fac-accountant-gqa) to 4. (In **grouped-query attention**,
#   GQA, several query heads share one head of K and V.) Only the small terms shrink,
#   and S does not. The least counts K and V once for each of *their* heads.

# %% quiz-bound
Quiz(
    "A kernel is said to move exactly the least number of bytes. What follows?",
    options=[
        (
            "No other kernel can move fewer.",
            True,
            "That is what a lower bound says. It says nothing about time.",
        ),
        (
            "It reads each K row into the chip's registers once.",
            False,
            "The bound is about HBM. The shelf, L2, may serve the same row many times.",
        ),
        (
            "It is the fastest possible kernel.",
            False,
            "Bytes are one of three things that take time. See below.",
        ),
    ],
)

# %% fewer-faster [markdown]
# ## Are 97 times fewer bytes 97 times faster?
#
# Eager PyTorch makes six trips, so 4 N² b becomes 6 N² b. At N = 8192, d = 128 it moves
# 1.5 · N/d + 1 = 97 times the least. Keep the factors apart; each has its own two sides:
#
# | what | over what | factor |
# |---|---|---|
# | bytes, naive | bytes, the least | N/d + 1 |
# | bytes, eager | bytes, the least | 1.5 · N/d + 1 |
# | time, eager | time, fused | measured: your next prediction |
#
# (What FlashAttention *loads* is more than the least. That was lesson 00's tape; naive's bytes
# over that tape are one more factor: lesson 04.)

# %% predict-speed
p_speed = Predict(
    "2-speed",
    "N = 8192, 8 heads, d = 128, bf16. How many times faster than eager is the "
    "fused kernel, measured?",
    unit="x",
)
p_speed

# %% roofline [markdown]
# ## Intensity and the roofline
#
# The **intensity** of a piece of work is its FLOPs divided by the bytes it
# moves: how much work does one delivered byte allow?
#
# By hand, for the least: 4 N² d FLOPs ÷ 4 N d b bytes = N/b. With 2 bytes a
# number that is N/2. It grows with N. For naive attention the N² stands above
# and below: the intensity stays under d/b, here 64, however long the text is.

# %% intensities folded=true
# @title A table: the intensities of eager and naive, and the ridge
from course_lib.accounting.traffic import attention_flops, intensity

shape_8192 = {"n": 8192, "d": 128, "heads": 8, "b": 2}
least = flash_compulsory.bytes(**shape_8192)
flops = attention_flops(8192, 8192, 128, heads=8)
work = {
    "eager, 6 trips": intensity(flops, eager_six_trips.bytes(**shape_8192)),
    "naive, 4 trips": intensity(flops, naive_four_trips.bytes(**shape_8192)),
}
rows = [*work.items(), ("ridge of H100", H100.ridge)]  # the least: N/2, work it out yourself
regimes = load_measurements("h100_regimes")  # times, for the answer and for the chart
at_8192 = next(row for row in regimes["rows"] if row["n"] == 8192)
Table(("", "FLOP/byte"), rows, {"FLOP/byte": ",.0f"}, {"FLOP/byte": "flash"})


# %% reveal-speed
p_speed.reveal(
    at_8192["eager_us"] / at_8192["flash_us"],
    f"Measured: {at_8192['eager_us']:.0f} µs and {at_8192['flash_us']:.0f} µs. Once "
    "the bytes are gone, the arithmetic is still there, and it has not become less.",
)


# %% roofline-say [markdown]
# The **roofline** draws the most FLOPs a second that an intensity allows. On
# the left the road decides: bandwidth × intensity, a slope. On the right the
# hands decide, a flat roof: such work is **compute-bound**. They meet at the
# ridge, 295.
#
# The diamonds are **measured** times turned into TFLOP/s (H100, N = 8192,
# 8 heads, d = 128, bf16). Their horizontal places are measured too: FLOPs divided by the
# bytes that hardware counters saw. These agree with the models: 6.48 GB for eager (six trips
# predict 6.51), 0.065 GB for the fused kernel (the least is 0.067; a counter may miss what
# still lies in L2 when the kernel ends).
#
# Then change N below the picture. The models appear: the right end of flash's bar, the least that
# it can move, runs along the roof. Which marks stay where they are? (Some belong to later lessons.)

# %% plot-roofline folded=true
# @title The roofline, with two measured marks
chart = RooflineChart(n=8192, d=128, heads=8)
counters = load_measurements("h100_dram_traffic")  # bytes, by hardware counters
rows = [row for part in ("naive", "sweep") for row in counters[part] if row["n"] == 8192]
counted_gb = {row["kernel"]: row["dram_gb"] for row in rows if not row["causal"]}
for label, kernel, key in (
    ("eager, measured", "eager naive", "eager_us"),
    ("flash, measured", "SDPA flash", "flash_us"),
):
    tflops = flops / at_8192[key] / 1e6  # FLOPs per µs -> TFLOP/s
    chart.add_measurement(label, intensity=flops / counted_gb[kernel] / 1e9, tflops=tflops)
chart

# %% plot-roofline-say [markdown]
# [Eager attention](#fac-roofline-plot) stands under the slope, and gets half of what the
# road allows. (Lesson 01 timed its steps: the softmax is slower than the road.) *Flash*, the
# fused kernel, stands under the flat roof: bytes are no longer its limit. It reaches a third
# of that roof; lesson 08 asks why.
#
# As N grows, the least moves on to the right without end. Eager and naive soon hardly move:
# they never pass 64. (The diamonds were measured at N = 8192 and are shown there alone.)

# %% three-regimes [markdown]
# ## Three regimes, not two
#
# There is a third thing that takes time. Before anybody works, an order must be
# written and carried to the workshop. Starting a kernel is a **launch**. A round figure
# for the least it costs is 5 microseconds, and PyTorch spends more on the way there. A
# small job costs as much paper as a large one.
#
# So each piece of work has three least times:
#
# - **overhead**: launches × time per launch,
# - **traffic**: bytes ÷ bandwidth,
# - **arithmetic**: FLOPs ÷ FLOPs per second.
#
# The largest of the three is the limit: where it is traffic, work is *memory-bound*,
# where it is arithmetic, *compute-bound*. At N = 8192, of eager and of one launch that moves
# the least:

# %% least-times folded=true
# @title A table: the three least times
from course_lib.figures.regimes import bounds

bounds(flops, eager_six_trips.bytes(**shape_8192), least)

# %% predict-short
short = {"n": 512, "d": 128, "heads": 8, "b": 2}
ratio = eager_six_trips.bytes(**short) / flash_compulsory.bytes(**short)
print(f"N = 512: eager moves {ratio:.0f} times the least")
p_short = Predict(
    "2-short",
    "How many times faster than eager is the fused kernel at N = 512, "
    "measured on an H100 (8 heads, d = 128, bf16)?",
    unit="x",
)
p_short

# %% reveal-short
from course_lib.figures.regimes import times

display(times())
at_512 = next(row for row in regimes["rows"] if row["n"] == 512)
p_short.reveal(
    at_512["eager_us"] / at_512["flash_us"],
    "Moving the bytes takes less than 10 µs, and the GPU alone is busy for "
    f"{at_512['eager_gpu_us']:.0f} and {at_512['flash_gpu_us']:.0f} µs. What is left is "
    "paperwork: what the host, the CPU, needs to write its orders.",
)

# %% plot-regimes
# @title A picture: measured times beside the least times, over N
from course_lib.figures.regimes import draw_regimes

draw_regimes()


# %% plot-regimes-say [markdown]
# On the left eager's line is flat from N = 64 to 1024, though its bytes grow more than a
# hundredfold: **bytes decide nothing** there. That is overhead, more than the least: four
# launches of 5 µs are 20 µs, and eager took 70 µs at N = 512.
#
# On the right fused runs parallel to the arithmetic, and eager stays above its traffic
# line. *Times faster* is 4.6 at N = 8192. (At 16384 it is 3.3: why, we did not measure.)

# %% quiz-short
from course_lib.accounting.traffic import time_bounds

flops_128 = attention_flops(128, 128, 128, heads=8)
at_128 = time_bounds(flops_128, eager_six_trips.bytes(n=128, d=128, heads=8), 4, H100)  # seconds
Quiz(
    "Which change would help eager attention most at N = 128 (8 heads, d = 128, on an H100)?",
    options=[
        (
            "A kernel that moves half the bytes",
            False,
            "The bytes take under 1 µs of at least 20 µs.",
            {"bytes": at_128["traffic_s"] / 2 * 1e6},
        ),
        (
            "A GPU with twice the FLOP/s",
            False,
            "The FLOPs take 0.07 µs of at least 20 µs.",
            {"FLOPs": at_128["arithmetic_s"] / 2 * 1e6},
        ),
        (
            "Fewer kernel launches",
            True,
            "Four launches take 20 µs, one takes 5. Batching (one kernel for many calls) and CUDA "
            "graphs (many launches recorded, started as one) both do this.",
            at_128["overhead_s"] * 3 / 4 * 1e6,  # of four launches one is left
        ),
    ],
    unit="µs saved at most",
    # of the three bounds the longest
    whole={f"launch {i}": at_128["overhead_s"] / 4 * 1e6 for i in range(1, 5)},
    inside={"bytes": at_128["traffic_s"] * 1e6, "FLOPs": at_128["arithmetic_s"] * 1e6},
)

# %% fusion [markdown]
# ## Fusion: what a compiler does about trips
#
# **Fusion** means: two operations become one kernel, and what passes from the
# first to the second stays on the desk, instead of going to the warehouse and
# back. A compiler can do that: `torch.compile` reads your PyTorch function and
# writes kernels for it. What does it make of `eager` above?

# %% predict-compile
p_compile = Predict(
    "2-compile",
    "`torch.compile(eager)` as it comes, N = 8192. How many of the six trips stay?",
    options=["six", "four", "two", "none"],
)
p_compile

# %% exhibit
from course_lib.figures.fusion import kernels, versions

versions()


# %% reveal-compile
p_compile.reveal(
    "none",
    "It recognises the three lines, and puts a ready fused kernel in their place. With "
    "the recognition switched off, four of six stay.",
)

# %% exhibit-say [markdown]
# Times, peaks and DRAM bytes are **measured**, the trips are the model's. (*SDPA flash* is one
# of PyTorch's own fused kernels.)
#
# **Eager, 6 trips.** Two N × N matrices of 1024 MiB (8 heads) are alive at once.
#
# **As it comes, 0 trips.** The compiler has a list of patterns. It found attention
# in it and silently put a fused attention kernel in its place, one that people had
# written. Change the lines enough and the pattern does not match.
#
# **Pattern off, 4 trips.** With that list switched off, the division and softmax become one
# kernel: read S, write P, where S stood. There it stops. A matrix product stands on each side
# of softmax, and softmax needs its whole row before it can give out one weight.

# %% quiz-compiler
Quiz(
    "Which sentence about compilers and attention survives this exhibit?",
    options=[
        ("A compiler never removes the trips.", False, "As it comes: 0 left."),
        (
            "A compiler makes FlashAttention unnecessary.",
            False,
            "Without the pattern it stopped at four trips. The kernel it puts "
            "in is one that somebody wrote.",
        ),
        (
            "Look at what it did: count, or read the kernels' names.",
            True,
            "Peak memory alone tells the three cases apart; the names stand in the optional part.",
        ),
    ],
)

# %% shown [markdown]
# ## What was shown, and what was not
#
# Shown: S and P travel because each step is a kernel of its own; how few bytes any kernel
# must move; and that fewer bytes are faster only where traffic is the limit. Not shown:
#
# - That every kernel *reaches* the least. A real kernel loads K and V again and
#   again. Where these loads land is the subject of lesson 04.
# - That a small S goes to HBM. At N = 1024 and 8 heads S is 16 MiB and may stay
#   in L2. The trip model is meant for an S that does not fit.
# - *How* softmax can work without its whole row. Without that there is no
#   fusion to zero trips.

# %% quiz-97
Quiz(
    "A kernel moves 97 times fewer bytes than eager and is 4.6 times faster. "
    "Somebody says: one of these numbers must be wrong. Answer?",
    options=[
        (
            "Both can be right: the limit changed from traffic to arithmetic.",
            True,
            "Where traffic is not the largest time, fewer bytes buy nothing.",
        ),
        (
            "Yes: time is proportional to bytes.",
            False,
            "Only while traffic is the largest of the three times.",
        ),
        (
            "The kernel must do more FLOPs, and that eats the gain.",
            False,
            "The FLOPs of the products are the same as before.",
        ),
    ],
)

# %% exercises [markdown]
# ## Your turn
#
# Open `exercises/02_the_hbm_accountant.ipynb`: the least for any heads and
# lengths (2.1), the factor and the crossover (2.2), a function that names the
# regime (2.3), and two audit cards, numbers from public texts that you count again
# (2.4).

# %% next [markdown]
# ## What comes next
#
# The compiler stopped at softmax, because softmax needs its whole row. Lesson
# 03 takes that obstacle apart, with paper, a calculator and sticky notes.
#
# **To read:**
#
# - Williams, Waterman, Patterson, *Roofline: An Insightful Visual Performance
#   Model for Multicore Architectures*, Communications of the ACM 52 (4), 2009:
#   where the picture comes from.
# - Horace He, *Making Deep Learning Go Brrrr From First Principles* (2022),
#   [horace.io/brrr_intro.html](https://horace.io/brrr_intro.html): compute,
#   memory and overhead, in prose.
# - Dao, Fu, Ermon, Rudra, Ré, *FlashAttention* (2022),
#   [arXiv:2205.14135](https://arxiv.org/abs/2205.14135), section 2: hardware
#   and the standard implementation, in their words.
# %% optional [markdown]
# ## Optional: a race, more about the compiler, a share
#
# Not needed for the exercises, nor for the lessons of Part I (08 names Amdahl's law once).

# %% race-text [markdown]
# ### The prices as a race
#
# Both sides compute the same answer on one clock: bytes divided by bandwidth, no
# measured time. Play it, then drag the corner of S up to N = 8192, lesson 00's race at
# d = 128. On the left S and P no longer fit into L2, so their trips reach HBM. On the
# right the programs read K and V again and again (the long tape, ×64); the thin tape is
# the least. HBM sees something between the two: lesson 04.

# %% race
Race(1024, 128, 128, 128, caches=True)

# %% compile-more [markdown]
# ### More about the compiler and the measured times
#
# The names of the kernels (*nvjet* is a matrix product):

# %% compile-names
kernels()

# %% compile-more-say [markdown]
# - *As it comes* is not the last line's kernel, *SDPA flash*: PyTorch has several, and
#   the name shows that NVIDIA's cuDNN library was called.
# - *Pattern off* has 1.5 times fewer bytes, as the model says, yet the time fell by a
#   factor of 2. The compiler's softmax is another one than eager's, which is slow;
#   nobody timed its kernels one by one.
# - Nor is it always four launches against one: at N = 1024 the counters saw two kernels of
#   this fused attention. Lesson 10 says why.

# %% amdahl [markdown]
# ### What share of a model is attention?
#
# A model does other things as well: the products with its weights. Suppose
# attention takes a share p of the time, and becomes s times faster. The rest
# stays as it is:
#
# new time = (1 − p) + p/s, and the whole is 1 ÷ that times faster.
#
# This is **Amdahl's law**. By hand, with p = ½ and s = 2: ½ + ¼ = ¾. Attention
# is twice as fast, the whole is 1.33 times as fast.

# %% predict-amdahl
p_amdahl = Predict(
    "2-amdahl",
    "Attention is a quarter of a model's time and becomes 4 times faster. How "
    "many times faster is the model?",
    unit="x",
    least=1,
)
p_amdahl


# %% amdahl-code
def whole_speedup(share, speedup):
    """How many times faster everything is (Amdahl 1967)."""
    return 1 / (1 - share + share / speedup)


# %% reveal-amdahl
p_amdahl.reveal(
    whole_speedup(0.25, 4),
    "3/4 + 1/16 = 13/16. Even infinitely fast attention would give 1.33.",
)


# %% share [markdown]
# Where does the share come from? A **model** for FLOPs: a layer of width D
# has about 12 D² weights (4 D² for Q, K, V and the output, 8 D² for the
# feed-forward part). Each weight costs 2 FLOPs per token. Attention costs
# 4 N D per token. Its share is
#
# 4 N D ÷ (24 D² + 4 N D) = N ÷ (6 D + N)


# %% share-code
def flop_share(n, width):
    """Attention's share of a layer's FLOPs, no causal mask."""
    return n / (6 * width + n)


for n in (1024, 8192, 32768, 131072):
    share = flop_share(n, width=4096)
    print(
        f"N = {n:6}: {share:4.0%} of the FLOPs;"
        f" attention 4x faster -> {whole_speedup(share, 4):.2f}x"
        " if time were FLOPs"
    )

# %% share-say [markdown]
# Time is not FLOPs: to know p, measure it. But in FLOPs the two ends are certain: at
# short N attention hardly counts, and the longer the text, the more it does. Attention is one step of a model, and K and V of all
# earlier tokens, the **KV cache** (lesson 10), are input of that step.

# %% quiz-cache
Quiz(
    "A server runs out of memory because of its KV cache. What does "
    "FlashAttention change about that?",
    options=[
        (
            "Nothing: K and V are its inputs, as large as before.",
            True,
            "It removes S and P. Fewer KV heads, smaller numbers or paging help the cache.",
        ),
        ("It makes the cache N/d times smaller.", False, "K and V stay."),
        (
            "It stores the cache in pages.",
            False,
            "That is PagedAttention, another idea. One kernel can use both.",
        ),
    ],
)
