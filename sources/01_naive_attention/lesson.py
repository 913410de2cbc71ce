# %% title [markdown]
# # 01 · Naive attention
#
# **You need:** lesson 00, NumPy, and the matrix product. The little PyTorch is told
# where it is used.
#
# **You will be able to:** write attention in three lines, say what each line
# costs, and find the line that costs most.
#
# **Time:** 42 minutes of reading, 22 for the exercises.

# %% imports
import math

import numpy as np
import torch

from course_lib import EagerLedger, Predict, Quiz, demo
from course_lib.accounting.measurements import load_measurements
from course_lib.style.table import Table
from course_lib.widgets import Race


# %% question [markdown]
# ## The question
#
# *The cat did not eat, as it was ill.* Who was ill? You looked back from *it* to
# *cat*. Attention is that look, with numbers.
#
# A language model reads a text as a row of *tokens*: words and pieces of words.
# Let **N** be how many there are. In attention every token looks at every token.
#
# **What do all these looks cost, and where exactly?**
#
# A prediction first, before you read on. Nobody grades it. Here are the
# three lines that this lesson is about; you do not have to understand them yet.
# (`k.T` is k transposed: rows and columns change places.)
#
# ```python
# scores = q @ k.T                      # line 1: a matrix product
# weights = softmax(scores / sqrt(d))   # line 2: a division and a softmax
# o = weights @ v                       # line 3: a matrix product
# ```

# %% predict-double
double = Predict(
    "1-double",
    "N doubles. How many times as many numbers does `scores` hold?",
    unit="times",
    least=1,
)
double

# %% recap [markdown]
# ## Q, K and V in two minutes
#
# Each token gets three rows of **d** numbers. d is called the *head
# dimension*; 64 and 128 are usual.
#
# * its **query**: what this token is looking for,
# * its **key**: what this token offers to the others,
# * its **value**: what it hands over when somebody listens to it.
#
# All queries, one below the other, are the matrix **Q** with N rows and d
# columns. **K** and **V** hold the keys and the values in the same way.
#
# A token compares its query with every key. The comparison is a sum of d
# products. It gives one number, a *score*: high means "this one is of interest
# to me". From the scores come *weights*: positive numbers that sum to 1. The
# result for the token is the mix of all values with these weights.

# %% sentence [markdown]
# ### Where Q, K and V come from
#
# Back to the cat. Each token arrives with a row of numbers, x: what the model knows of it so far.
# Three matrices turn it into a query, a key and a value: w_q, w_k and w_v. A model
# learns them; the ones below are made up, so that you can follow. x has two numbers:
# how much the word is a living being, and how much it stands for one.

# %% sentence-code
words = "the cat did not eat as it was ill".split()
x = np.zeros((9, 2))  # (N, 2)
x[words.index("cat"), 0] = 3  # very much a being
x[words.index("it"), 1] = 2  # stands for one

w_q = np.array([[0.0, 0], [1, 0]])  # who stands for a being looks for one
w_k = np.array([[1.0, 0], [0, 0]])  # who is a being says so
w_v = np.eye(2)  # changes nothing: here the value is x itself
q, k, v = x @ w_q, x @ w_k, x @ w_v  # (9, 2) each
s = q @ k.T / np.sqrt(2)  # (9, 9): scores, divided by the root of d: "The three lines"
p = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)  # scores to weights: below
it = words.index("it")
print("it, before:", x[it], " what it gets:", (p @ v)[it].round(2))

# %% sentence-picture
# @title A picture: at whom "it" looks
from course_lib.figures.sentence import draw_sentence

draw_sentence(words, p[it], it)

# %% sentence-say [markdown]
# *it* now carries the mark of a living being. (A real model adds this to x, so its own
# mark is not lost.) The other eight queries are all zeros: they look for nothing, so
# they look at everybody alike. (A real model has dozens of such lookers side by side,
# its *heads*, and dozens of layers of them.)

# %% by-hand-text [markdown]
# ### The softmax by hand
#
# One token looks at two others. Its scores are **1** and **3**. The two values
# are **10** and **20** (so d is 1 here).
#
# From scores to weights goes the *softmax*. It has three steps:
#
# 1. Subtract the largest score: 1 − 3 = −2, and 3 − 3 = 0.
# 2. Take exp: exp(−2) = 0.13534, and exp(0) = 1. All are positive now.
# 3. Divide by their sum, 1.13534: the weights are 0.1192 and 0.8808. They sum to 1.
#
# The result is 0.1192 · 10 + 0.8808 · 20 = 18.81. It lies between 10 and 20,
# nearer to 20, as it must: a mix cannot lie above every value in it.
#
# The computer agrees:

# %% by-hand
scores = np.array([1.0, 3.0])
values = np.array([10.0, 20.0])

e = np.exp(scores - scores.max())
weights = e / e.sum()
print("exp    ", e.round(5))
print("weights", weights.round(4), "sum", weights.sum().round(4))
print("result ", (weights @ values).round(2))

# %% why-max [markdown]
# **Why subtract the largest score?** In algebra it changes nothing: numerator
# and denominator are multiplied by the same factor, exp(−max). But for a computer
# exp(1000) is infinite, and infinity divided by infinity is no number.

# %% chart [markdown]
# ## The seating chart
#
# You plan a dinner for N guests. To seat them well you draw a chart. It has one
# row and one column for each guest. In row A and column B stands a number: how
# much would A enjoy to sit by B?
#
# The guests are the tokens. The numbers are the scores. The chart is the matrix
# of scores, called **S**. (In the chart a guest also gets a number for itself:
# a token looks at itself, too.)
#
# Now count. **3** guests: 3 rows of 3, so **9** numbers. **6** guests: 6 rows of
# 6, so **36** numbers. The list of guests doubled. The chart did not double.

# %% chart-picture
# @title A picture: a chart for 3 guests, and for 6
from course_lib.figures.chart import draw_charts

draw_charts(3, 6)


# %% reveal-double
double.reveal(
    6**2 / 3**2,
    "A row more and a column more for every token: both sides of the chart "
    "double. N x N is called quadratic in N. (Q, K and V grow like the list of guests: N rows "
    "of d numbers.)",
)

# %% three-lines [markdown]
# ## The three lines
#
# One head. `n_q` is the number of queries and `n_k` the number of keys; here both
# are N.
#
# Why is there a division by `sqrt(d)`? A score is a sum of d products. The more
# terms, the wider the sums spread, and wide scores make softmax give everything to
# one key. Dividing by sqrt(d) undoes that:

# %% why-scale
rng = np.random.default_rng(1)
for d in (16, 64, 256):
    q, k = rng.standard_normal((2, 2000, d))
    spread = (q * k).sum(axis=1).std()
    print(f"d = {d:3}: scores spread by {spread:5.2f}", end="; ")
    print(f"after the division by {spread / math.sqrt(d):.2f}")


# %% naive
def softmax_rows(scores):
    """Turn each row into weights that sum to 1."""
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def naive(q, k, v):
    """Attention: (n_q, d), (n_k, d), (n_k, d) -> (n_q, d)."""
    d = q.shape[1]
    scores = q @ k.T  # (n_q, n_k)  line 1
    weights = softmax_rows(scores / math.sqrt(d))  # (n_q, n_k)  line 2
    return weights @ v  # (n_q, d)  line 3


# %% naive-text [markdown]
# This is called *naive* attention. The word means: written as the formula says,
# with every matrix in between written down. Is it right? We compare with the course's
# float64 answer:

# %% naive-check
from course_lib.attention import attention_float64

n, d = 200, 32
q, k, v = np.random.default_rng(2).standard_normal((3, n, d)).astype(np.float32)

o = naive(q, k, v)
truth, _ = attention_float64(q, k, v)
print("o has shape", o.shape)
print("weights sum to", softmax_rows(q @ k.T / math.sqrt(d)).sum(axis=1)[:3].round(4), "...")
print(f"largest error {abs(o - truth).max():.1e}")

# %% trips [markdown]
# ## Four trips
#
# Now to the cost. A GPU has a chip that computes, and beside it a large memory,
# called **HBM**. The chip itself can hold only a little. Whatever is too large
# for the chip lives in HBM and has to travel. A line *moves* the bytes that it
# reads from HBM and the bytes that it writes there.

# %% predict-dearest
LINES = ["line 1: `q @ k.T`", "line 2: scale and softmax", "line 3: `weights @ v`"]
MOST = "At large N, which line moves the most bytes?"
dearest = Predict("1-dearest", MOST, options=LINES, unit="GB")
dearest

# %% trips-table [markdown]
# Picture a **workshop** and a **warehouse** with a road between them. The
# workshop is the chip. The warehouse is HBM. The workshop has room for one job
# at a time, so after each job the results go to the warehouse.
#
# In our three lines each step is one job. S is a crate that does not fit in the
# workshop. Let **P** be the matrix of weights, a crate of the same size.
#
# | trip | job | on the truck |
# |---|---|---|
# | 1 | line 1 is done: store S | S to the warehouse |
# | 2 | line 2 begins: fetch S | S to the workshop |
# | 3 | line 2 is done: store P | P to the warehouse |
# | 4 | line 3 begins: fetch P | P to the workshop |
#
# %% trips-picture
# @title A picture: the road between workshop and warehouse
from course_lib.figures.trips import draw_trips

draw_trips()


# %% reveal-dearest
grid, small = 8 * 8192 * 8192 * 2 / 1e9, 8 * 8192 * 128 * 2 / 1e9  # GB of S or P; of Q, K, V or O
dearest.reveal(
    LINES[1],
    "It makes two of the four trips of S and P; lines 1 and 3 make one each, and move "
    "Q, K, V and O.",
    sizes={
        LINES[0]: {"S": grid, "Q and K": 2 * small},
        LINES[1]: {"S": grid, "P": grid},
        LINES[2]: {"P": grid, "V and O": 2 * small},
    },
    note="Bars: N = 8192, 8 heads, d = 128, 2 bytes a number.",
)

# %% trips-after [markdown]
# After trip 4 line 3 makes the result O, and P is thrown away. Nobody had
# ordered S or P. The customer wanted O. **The truck drove four times with
# crates that end in the bin.**
#
# Q, K, V and O travel too, once each. They are small crates: N rows of d numbers.
#
# ### The bytes by hand
#
# Three guests, d = 2, and 2 bytes per number (half precision).
#
# * S has 3 · 3 = 9 numbers, so 18 bytes. P as well. Four trips: 4 · 18 = **72 bytes**.
# * Q, K, V, O have 3 · 2 = 6 numbers each, so 12 bytes. Four of them: **48 bytes**.
# * Together: **120 bytes**.
#
# As a formula, with b bytes per number: **4 N² b + 4 N d b**. The course has it
# as a *model* that you can ask, `naive_four_trips`.
#
# With three guests the small crates are two fifths of the load. Now a real
# size: N = 16384 tokens, 16 heads, d = 128, half precision. How large is P alone?

# %% p-size
from course_lib.accounting.traffic import naive_four_trips

print("three guests:", naive_four_trips.bytes(n=3, d=2, b=2), "bytes")
n, heads, d, b = 16384, 16, 128, 2
p_bytes = heads * n * n * b
all_bytes = naive_four_trips.bytes(n=n, heads=heads, d=d, b=b)
print(f"P:          {p_bytes / 1e9:6.2f} GB")
print(f"four trips: {4 * p_bytes / 1e9:6.2f} GB")
print(f"everything: {all_bytes / 1e9:6.2f} GB")
print(f"S and P are {4 * p_bytes / all_bytes:.1%} of it")

# %% p-size-text [markdown]
# A number of bytes is complete only with three things: **what** is counted (one matrix,
# or all its trips), how many **bytes per number**, and the **unit**. MB and GB are powers
# of ten; MiB and GiB are powers of two, and 5 % and 7 % larger.

# %% ledger [markdown]
# ## Count it: how many trips does PyTorch make?
#
# Four trips is what the table above *predicts*. Does PyTorch do that? The
# instrument is a **ledger**. It watches every operation that PyTorch runs and
# books what it reads and what it writes.
#
# "Eager" PyTorch, the ordinary kind, runs one operation after the other. Each
# one reads its inputs from memory and writes its result to memory. Look at the
# code below, count its operations, and predict.
#
# New to PyTorch? A *tensor* is an array, and `@` and `/` work as in NumPy. `dim=-1`
# is `axis=-1`, the last. `torch.softmax` is one operation, however many steps it takes inside.
# `k.mT` swaps the last two axes, so that more may stand in
# front: a tensor of shape `(1, heads, N, d)` is one text with its heads, each of
# them treated alike. `torch.randn(512, 32)` holds random numbers, and `with
# EagerLedger(...) as books:` watches what runs inside.


# %% eager-code
def naive_torch(q, k, v):
    """The three lines in PyTorch."""
    d = q.shape[-1]
    scores = q @ k.mT  # (..., n_q, n_k)
    weights = torch.softmax(scores / math.sqrt(d), dim=-1)  # (..., n_q, n_k)
    return weights @ v  # (..., n_q, d)


# %% predict-trips
trips = Predict(
    "1-trips",
    "How many trips of an N x N matrix does the ledger count for `naive_torch`?",
    unit="trips",
)
trips

# %% ledger-run
q, k, v = (torch.randn(512, 32) for _ in range(3))  # N = 512, d = 32
with EagerLedger(q=q, k=k, v=v) as books:
    naive_torch(q, k, v)

square = 512 * 512 * 4  # bytes of an N x N matrix in float32 (fp32), 4 bytes a number
for crossing in books.crossings:
    big = "<- N x N" if crossing.n_bytes >= square else ""
    print(f"{crossing.op:9} {crossing.direction:8}", end=" ")
    print(f"{crossing.tensor:9} {crossing.n_bytes:9,} bytes {big}")

# %% reveal-trips
trips.reveal(
    books.trips(square),
    "The division by sqrt(d) is an operation of its own: it reads all scores "
    "and writes all of them again.",
)

# %% six-trips-text [markdown]
# In the list, `mm` is a matrix product and `div` the division. A matrix made
# along the way carries the name of the operation that made it.
#
# So the table with four trips describes a *possible* program. The program that
# many people write makes **six**. The division looks like nothing: one
# operation per number. But the truck does not ask how much work is done with a
# crate. It drives the whole crate there and back.
#
# **Two words from here on.** *Naive* is the program of the table, with four trips. *Eager*
# is what PyTorch makes of the same lines: six. In exercise 1.4 you remove two of them.
#
# Press play: one program alone, the trips that the ledger **counted**, areas at one scale.
# (S2 is S/√d.) Then drag the corner of S, and see what grows. (What you drag to is computed
# from the same six trips. The clock is computed, too: bytes divided by the *bandwidth* of an
# H100, a GPU, which is how many bytes its memory moves in a second. An S as small as this one
# might stay on the chip; lesson 02 asks how large is too large.)

# %% race
Race(512, 32, lanes=("naive",), eager=books, dtype="fp32")

# %% dearest [markdown]
# ## Which line costs most?
#
# Line 2 makes two of naive's four trips. How many bytes is that in eager PyTorch? We count
# line by line, at the size of a real layer: N = 8192, 8 heads, d = 128, bf16 (a format of
# 2 bytes).
#
# S and P are 1 GiB each, too much for a small laptop. The ledger needs only the
# shapes, so we give it tensors on PyTorch's `meta` device: they have a shape and no
# numbers.

# %% count-lines
steps = {  # s stands for S and for P: the same shape
    "line 1: q @ k.T": lambda q, k, v, s: q @ k.mT,
    "line 2: / sqrt(d)": lambda q, k, v, s: s / math.sqrt(q.shape[-1]),
    "line 2: softmax": lambda q, k, v, s: torch.softmax(s, dim=-1),
    "line 3: weights @ v": lambda q, k, v, s: s @ v,
}
no_numbers = {"dtype": torch.bfloat16, "device": "meta"}
q, k, v = torch.empty(3, 1, 8, 8192, 128, **no_numbers)  # each (1, heads, N, d)
s = q @ k.mT  # (1, heads, N, N)
n_scores = s.numel()
counted, flops = {}, {}
for name, step in steps.items():
    with EagerLedger() as ledger:
        step(q, k, v, s)
    counted[name], flops[name] = ledger.total / 1e9, ledger.flops
total = sum(counted.values())
line_2 = counted["line 2: / sqrt(d)"] + counted["line 2: softmax"]

# %% measured-text [markdown]
# To the counted bytes we add *measured* ones. They come from the hardware
# counters of one H100 GPU that ran the same code (they call HBM *DRAM*): N = 8192,
# 8 heads, d = 128, bf16.

# %% count-plot
# @title A picture: the bytes of each step, counted and measured
from course_lib.figures.naive_steps import draw_steps

draw_steps(counted)


# %% flops-text [markdown]
# Many would say line 1 or line 3, for a good reason: matrix products *are*
# nearly all of the arithmetic. Let us count that too. A *FLOP* is one
# arithmetic operation on two numbers, or one exp. Line 2 needs about 6 per score: one
# division, one comparison for the maximum, one subtraction, one exp, one addition, one
# division.

# %% flops-share folded=true
# @title A table: arithmetic and bytes, line 2 beside the others
work = {
    "lines 1 and 3": flops["line 1: q @ k.T"] + flops["line 3: weights @ v"],
    "line 2": 6 * n_scores,  # about 6 per score
}
moved = {"lines 1 and 3": total - line_2, "line 2": line_2}
rows = [(name, work[name] / sum(work.values()), moved[name] / total) for name in work]
names = ("", "of the arithmetic", "of the bytes")
Table(names, rows, {names[1]: ".1%", names[2]: ".0%"}, {names[1]: "flash", names[2]: "naive"})


# %% timing-text [markdown]
# **And the time?** The same H100 was given a clock, step by step.

# %% measured-times folded=true
# @title A table: the time of each step, measured
record = load_measurements("h100_naive_steps")
times = [(name, row["median_us"] / 1000) for name, row in zip(steps, record["rows"])]
note = f"{record['device']}, median of 25 runs, torch {record['versions']['torch']}"
Table(("step", "ms"), times, {"ms": ".2f"}, {"ms": "naive"}, note=note)


# %% timing-read [markdown]
# Line 2 is more than three quarters of the time.
#
# Look closer. The division moves its 2.13 GB in 0.70 ms: 3.0 TB/s, where this memory
# can do 3.35. The softmax moves as much and takes three times as long: bytes are not
# all that slows this kernel down. (Each step was timed alone. Timed as one, in lesson 02,
# they take a little less than this sum.)

# %% memory [markdown]
# ## Room in the warehouse
#
# So far we counted *traffic*: how many bytes travel. There is a second cost, the
# *footprint*: how many bytes must be stored at one time. PyTorch's softmax reads one
# N x N matrix and writes another, so two are there, S and P: with four trips or with six.
# (Pictures of memory therefore say *naive* of both.) `naive_torch` holds a third: softmax
# reads the result of the division, and the name `scores` keeps line 1's alive as well. The
# course's version, `naive_eager`, writes everything as one expression, and PyTorch frees it.

# %% peak-count
from course_lib.attention.naive_eager import naive_eager

n = 512
q, k, v = torch.randn(3, n, 32)
for attend in (naive_torch, naive_eager):
    with EagerLedger(q=q, k=k, v=v) as ledger:
        attend(q, k, v)
    print(attend.__name__, "holds", ledger.peak_bytes / (n * n * 4), "matrices")

# %% fused-text [markdown]
# PyTorch also has attention as one single operation,
# `scaled_dot_product_attention`. It is *fused*: several steps in one. It computes the same.
# Lesson 03 begins to show how.

# %% predict-peak
peak = Predict(
    "1-peak",
    "N doubles. By what factor does the peak memory of the fused one grow?",
    unit="times",
    least=1,
)
peak

# %% peak-text [markdown]
# The next cell runs both at growing N, in processes whose memory has a limit. Areas are the
# most that each held, beyond its inputs. It takes about 15 seconds.

# %% peak-memory
found = demo.peak_memory()
found

# %% peak-after [markdown]
# What the ledger *counted* stands in the table. A process takes memory in pieces and uses
# some of it again, so what is *measured* of a small N may be off either way.

# %% reveal-peak
ran = [record for record in found.records if not record.out_of_memory]
grows = {}
for name in ("naive", "fused"):
    held = [record.ledger_bytes for record in ran if record.method == name]
    grows[name] = held[-1] / held[-2]
peak.reveal(
    grows["fused"],
    "It stores its output and nothing that is N x N. The output has N rows. (Naive grows "
    f"{grows['naive']:.3g} times per doubling.)",
)

# %% same-answer [markdown]
# Does the fused one compute the same at all? Compare both with the float64 answer:

# %% same-answer-code
torch.manual_seed(0)
q, k, v = (torch.randn(1, 8, 300, 64) for _ in range(3))
truth, _ = attention_float64(q, k, v)
fused_attention = torch.nn.functional.scaled_dot_product_attention
for attend in (naive_torch, fused_attention):
    error = abs(attend(q, k, v).numpy() - truth).max()
    print(f"{attend.__name__:30} is off by {error:.1e}")

# %% right [markdown]
# ## When is an answer right?
#
# Neither is exact: computers round. A number in *half precision* (fp16, 2 bytes)
# keeps about three decimal digits. The nearest one to 1/3:

# %% right-plot
# @title A picture: 1/3 among the numbers of fp16
from course_lib.figures.half_precision import draw_third

draw_third()

# %% right-rule [markdown]
# Thousands of such errors add up, or partly cancel, in your code and in anybody's.
# How much is fair? The course asks PyTorch.
#
# > **The rule.** Your answer is right if it is as near to the truth as PyTorch's own plain
# > attention is, **times two**, plus a little: 1e-5 in float32, more in half precision.
#
# *The truth* is computed in float64, with about 16 digits, from the same inputs.
# *PyTorch's plain attention*, `naive_eager`, runs in the format of your code. *Times
# two*, because sums in another order round differently. Shape and dtype must be right
# as well, and no number NaN.

# %% right-code folded=true
# @title How far PyTorch is off, and how far you may be
from course_lib.judging.tolerance import allowed_error, as_float64

torch.manual_seed(0)
for dtype in (torch.float32, torch.float16):
    q, k, v = (torch.randn(300, 64).to(dtype) for _ in range(3))
    truth, _ = attention_float64(q, k, v)
    eager = as_float64(naive_eager(q, k, v))  # PyTorch in this dtype
    error = abs(eager - truth).max()
    allowed = allowed_error(truth, eager, str(dtype).removeprefix("torch."))
    print(f"{dtype}: PyTorch is off by {error:.1e}, you may be off by {allowed:.1e}")

# %% shown [markdown]
# ## What was shown, and what was not
#
# | claim | how |
# |---|---|
# | the chart S quadruples when N doubles | counted by hand |
# | four trips: 4 N² b + 4 N d b bytes | predicted (a model) |
# | eager PyTorch makes six trips | counted by the ledger |
# | of these, line 2 moves about two thirds of the bytes | counted, and measured on an H100 |
# | naive memory grows four times per doubling | counted and measured here |
# | fused memory grows two times per doubling | counted here |
#
# Not shown: that fused attention is *faster*, and by how much. Fewer bytes do not make a
# program faster by the same factor. Lesson 02 asks why.

# %% questions [markdown]
# ## Questions

# %% quiz-quadruple
Quiz(
    "One head, half precision. S takes 32 MiB at N = 4096. How much at N = 16384?",
    answer=512,
    unit="MiB",
    explanation="N is 4 times as large, so S is 16 times as large: 16 x 32.",
)

# %% quiz-axis
Quiz(
    "`weights` comes out of the softmax. Which sums are 1?",
    [
        ("those of the rows", True, "Each query divides its own attention."),
        ("those of the columns", False, "A key may be popular or ignored."),
        ("both", False, "Only the rows: nothing makes the columns sum to 1."),
    ],
)

# %% quiz-mask
Quiz(
    "You add one more elementwise step to `naive_torch`, `scores = scores + bias`, where `bias` is "
    "a single number. How many trips of an N x N matrix in all?",
    answer=8,
    unit="trips",
    explanation="Six, and one reading and one writing more. Elementwise steps "
    "are cheap in arithmetic and expensive in trips. So is a mask (lesson 03) "
    "in eager code, and the mask itself is read as well.",
)

# %% quiz-tolerance
Quiz(
    "Your fp16 answer is off by 0.0009. PyTorch in fp16 is off by 0.0006. Right?",
    [
        ("Yes", True, "Twice PyTorch's own error is allowed: at least 0.0012 here."),
        ("No, PyTorch is better", False, "Twice its error is allowed: 0.0012 at least."),
        (
            "No, only exact answers count",
            False,
            "fp16 has no exact answer to give.",
        ),
    ],
)

# %% next [markdown]
# ## Your turn
#
# `exercises/01_naive_attention.ipynb`: **1.1** the two predictions, on
# another program · **1.2** attention in NumPy · **1.3** the bytes of every trip ·
# **1.4** from six trips to four.
#
# **Next:** lesson 02 asks what a byte costs compared with a FLOP. Then the
# question of this lesson gets its answer in seconds.
#
# **To read:**
#
# * Vaswani and others, [Attention Is All You Need](https://arxiv.org/abs/1706.03762),
#   section 3.2.1: the three lines as a formula.
# * Ivanov and others,
#   [Data Movement Is All You Need](https://arxiv.org/abs/2007.00072): what moves
#   in a whole transformer, operation by operation.
# * Dao and others, [FlashAttention](https://arxiv.org/abs/2205.14135), section
#   2.2: the same accounting, by the people who removed the trips.
