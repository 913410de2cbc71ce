# %% title [markdown]
# # 12 · Serving: who goes next?
#
# **You need:** lesson 02 (the roofline), lesson 10 (prefill, decode, the dial), lesson 11 (pages).
# No GPU.
#
# **You will be able to:** say what a server computes in each step, and what that does to the speed
# and to whoever waits; cut a long prompt so that nobody's next token stops; say why one tile does
# not fit a mixed batch; read what latent attention keeps, and why its decode waits for arithmetic;
# keep a cache in one byte a number and see what it costs; choose a kernel for a situation, with the
# reason.
#
# **Time:** 50 minutes for this lesson, 85 for its exercises.

# %% question [markdown]
# ## The question
#
# So far somebody told us what to compute: these queries, those keys. Now we are the server.
# Requests come when they like. Each has a prompt, whose length we see, and wants an answer, **whose
# length nobody knows before it ends**. There is one GPU, one pool of pages, and the next step.
#
# **Who goes next?**

# %% imports
import numpy as np
import torch

from course_lib import Predict, Quiz
from course_lib.accounting import decode_traffic as model
from course_lib.accounting.backends import checklist
from course_lib.accounting.hardware import GPUS
from course_lib.accounting.serving import Costs, simulate
from course_lib.attention import naive
from course_lib.figures import serving
from course_lib.style.table import Table

# %% picture [markdown]
# ## The picture: a coach and a tram
#
# A **coach** leaves with whoever is there. At each stop somebody has arrived; he leaves his seat,
# and it stays empty. Nobody gets on. When the *last* one has arrived, the coach turns back and
# takes the next party.
#
# A **tram** stops as well. But at each stop those who have arrived get off, and those who wait get
# on.
#
# A seat is room for one request in the step's batch, a stop is a step: everybody on board gets one
# token. The coach is **static batching**, the tram **continuous batching** (Orca, 2022, called it
# *iteration-level scheduling*).

# %% by-hand [markdown]
# ## A number by hand: four requests, two seats
#
# A wants 2 tokens, B 7, C 4, D 3. Two seats. First the coach:
#
# | steps | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 |
# |---|---|---|---|---|---|---|---|---|---|---|---|
# | seat 1 | A | A | – | – | – | – | – | C | C | C | C |
# | seat 2 | B | B | B | B | B | B | B | D | D | D | – |
#
# **11 steps.** 22 places, 16 of them used. And C, who was there from the start, gets a first token
# in step 8. Now draw the same table for the tram, on paper.

# %% predict-tram
p_tram = Predict(
    "12-tram",
    "The tram: who has ended leaves at once, who waits takes the seat in the next step, A B C D in "
    "this order. After how many steps has everybody ended?",
    unit="steps",
)
p_tram


# %% rides
def ride(wants, seats, refill):
    """Return (seat, first step, step after the last) of each request, in their order."""
    free_from = [0] * seats
    rides = []
    for i, steps in enumerate(wants):
        if not refill and i % seats == 0:
            free_from = [max(free_from)] * seats  # the coach waits for all
        seat = free_from.index(min(free_from))
        rides.append((seat, free_from[seat], free_from[seat] + steps))
        free_from[seat] += steps
    return rides


# %% draw-rides
both = {
    "coach": ride((2, 7, 4, 3), 2, refill=False),
    "tram": ride((2, 7, 4, 3), 2, refill=True),
}
serving.draw_seats(both)

# %% reveal-tram
p_tram.reveal(
    both["tram"][-1][2],
    "C gets on when A gets off, in step 3. Both ways compute the same 16 tokens; the coach "
    "computes "
    "them in 11 steps.",
)

# %% free-seat [markdown]
# Does an empty seat cost anything? Time, no: lesson 10's decode step waits for memory, and one
# request less is a few bytes less. But the step has read *all the weights of the model*, 16 GB of
# them, and gave them fewer users. **What a step costs is nearly fixed. So fill it.**
#
# A server is judged by three numbers, and they pull in different directions:
#
# - **throughput**: tokens a second, of all together;
# - **time to the first token**: how long a request waits before its answer begins;
# - **time between tokens**: how fluently it is read then.

# %% prompt-heading [markdown]
# ## The long prompt at the door
#
# 60 requests decode, each with 2000 rows in the cache. A prompt of 8192 tokens comes. On the tram
# it gets on at once, and its prefill is computed in the next step, with the others' tokens.
#
# How long is a step? The course's *cost model* is lesson 02's roofline: the bytes (all weights
# once, the caches of those who compute) over the bandwidth, or the FLOPs (2 for each weight and
# token) over the speed, whichever takes longer. Attention's own FLOPs and the launches are left
# out.

# %% predict-prompt
p_prompt = Predict(
    "12-prompt",
    "8 billion weights in bf16 on an H100. All 60 wait for the step that takes the whole prompt "
    "along. "
    "How many times as long as a usual step is it?",
    unit="times",
)
p_prompt

# %% chunks
costs = Costs()  # 8 billion weights, 32 layers, 8 K/V heads, an H100
rows, usual = 60 * 2000, costs.seconds(60, 60 * 2000)
table = []
for chunk in (8192, 2048, 1024, 512, 256):
    step = costs.seconds(60 + chunk, rows + chunk)
    table.append((chunk, 8192 // chunk, 1e3 * step, step / usual, 8192 / chunk * 1e3 * step))
columns = ("tokens of the prompt a step", "steps", "a step, ms", "of a usual step", "prompt, ms")
formats = {"a step, ms": ",.1f", "of a usual step": ".1f", "prompt, ms": ",.0f"}
Table(columns, table, formats, note=f"By the cost model. A usual step: {1e3 * usual:.1f} ms.")

# %% reveal-prompt
p_prompt.reveal(
    costs.seconds(60 + 8192, rows + 8192) / usual,
    "The usual step waits for bytes; this one waits for arithmetic: 2 FLOPs for each of 8 billion "
    "weights and each of 8192 tokens.",
)

# %% chunk-say [markdown]
# So the prompt is cut into **chunks**: *chunked prefill* (Sarathi, 2023). Look at the last lines:
# with 512 tokens a step nobody notices it. Not because 512 is few, but because the decode step left
# the arithmetic idle: these tokens ride along **for free**, on weights that were being read anyway.
#
# How many ride for free? It is the ridge of lesson 02 once more. A weight has 2 bytes and makes 2
# FLOPs a token: T tokens are T FLOPs a byte, and the ridge of an H100 is at 295. With the caches to
# be read as well, it is more. So each step gets a **budget** of tokens: first one for everybody who
# decodes, the rest for chunks of prompts. (vLLM does it so by default: decodes first, then prompts
# as far as the budget reaches. Its documentation, 2025.)
#
# The price: a chunk attends to all chunks before it, so their K and V are read again for each.

# %% predict-reread
p_reread = Predict(
    "12-reread",
    "A prompt of 8192 tokens in chunks of 512: each chunk reads the rows of all chunks before it. "
    "How many rows of K and V is that, as a multiple of 8192?",
    unit="times",
)
p_reread

# %% reread-run
before = sum(range(0, 8192, 512))  # rows that are there when each chunk comes
row_bytes = Costs().row_bytes
print(f"{before:,} rows, {before * row_bytes / 1e9:.1f} GB in 16 steps; weights 16 GB in each step")

# %% reveal-reread
p_reread.reveal(
    before / 8192,
    "Half of 15: the first chunk reads nothing, the last one 15 chunks. Beside the weights it is "
    "little. Smaller chunks read more.",
)

# %% mixed-heading [markdown]
# ## A mixed batch, and the kernel it asks for
#
# So a step holds 60 requests with one query and one with 512. The products with weights do not
# mind: 572 rows are 572 rows. **Attention does**, since each request has keys of its own. What does
# FlashAttention's tile of queries find? With groups of 4 heads packed (lesson 10), an answer has 4
# rows, the chunk 4 · 512.

# %% predict-tile
p_tile = Predict(
    "12-tile",
    "One launch, one tile size for all: 128 rows, good for prefill. What share of the rows in the "
    "60 answers' tiles is idle?",
    unit="%",
)
p_tile

# %% tiles
table = []
for tile in (16, 64, 128):
    table.append((tile, 60 * tile - 60 * 4, 100 * (1 - 4 / tile), 4 * 512 // tile))
columns = (
    "rows a tile",
    "idle rows of 60 answers",
    "idle, %",
    "the chunk's K and V are loaded, times",
)
Table(columns, table, {"idle, %": ".0f", "idle rows of 60 answers": ","}, note="By formula.")

# %% reveal-tile
p_tile.reveal(
    100 * (1 - 4 / 128),
    "Small tiles suit the answers and make the chunk load its keys 128 times; large ones suit the "
    "chunk. No single size suits both.",
)

# %% mixed-say [markdown]
# **So what is in the step decides which kernel runs.** There are three ways out:
#
# 1. *Two launches*: a decode kernel for the answers (keys split, small tiles), a prefill kernel for
#    the chunks. The usual way. Each launch may leave a part of the GPU idle at its end.
# 2. *One launch, planned*: the host deals tiles of different sizes to programs, so that all end
#    together. FlashInfer plans so. *POD-Attention* (2024) puts prefill and decode side by side on
#    each SM, so that one waits for memory while the other multiplies.
# 3. *One varlen kernel with a compromise*. Idle rows cost little while memory is what we wait for
#    (lesson 10), so a tile of 64 may be good enough.
#
# In all three the kernel is told the starts of queries and keys, since no two requests are alike.
# Which kernels can do that at all, is a column of the checklist below.

# %% wall-heading [markdown]
# ## Memory is the wall
#
# Seats are not what a server runs out of. Pages are. A request holds its rows *until it ends*,
# takes a new page every 16 tokens, and nobody knows for how long. Two ways to be wrong:
#
# - **Set aside the longest it could get.** Then nobody is ever thrown out. And most of what is set
#   aside stays empty (lesson 11).
# - **Admit as long as there are pages.** Then one day everybody needs one more, and there is none.
#   Somebody must be thrown out, *preempted*: his pages are freed, and his tokens computed again
#   later.
#
# Let us try. Below are two policies. A policy is asked before each step: who waits (`id: tokens of
# the prompt`), who runs (`id: (rows in the cache, tokens to compute)`; 0 tokens: the answer has
# ended), and how many pages are free. It says whose tokens are computed, and who leaves. Both set
# aside room for 256 tokens a request, the longest there can be.


# %% coach
def coach(waiting, running, free_pages, *, budget, page_size):
    """Nobody gets on before the last has got off."""
    if running and not any(todo for _, todo in running.values()):
        return {}, list(running)  # all leave
    if not running:
        seats = free_pages * page_size // 256
        return dict(list(waiting.items())[:seats]), []
    return {i: todo for i, (_, todo) in running.items() if todo}, []


# %% tram
def tram(waiting, running, free_pages, *, budget, page_size):
    """Who has ended gets off, and who waits gets on."""
    ended = [i for i, (_, todo) in running.items() if not todo]
    seats = free_pages * page_size // 256 + len(ended)
    compute = {i: todo for i, (_, todo) in running.items() if todo}
    return compute | dict(list(waiting.items())[:seats]), ended


# %% serve
def serve(policy, pages=64, every=0.02):
    """Serve 60 requests, one each `every` seconds, from so many pages of 16 rows."""
    requests = serving.requests(every=every)
    return simulate(policy, requests, pages=pages, page_size=16, budget=8192, reserved=256)


# %% predict-sim
p_sim = Predict(
    "12-sim",
    "60 requests, one every 20 ms; answers of 4 to 128 tokens, most of them short. The pool has "
    "room "
    "for 4 requests of 256 tokens. How many times as many tokens a second does the tram make?",
    unit="times",
)
p_sim

# %% sim
runs = {"coach": serve(coach), "tram": serve(tram)}
serving.draw_memory(runs)

# %% reveal-sim
p_sim.reveal(
    runs["tram"].tokens_per_second / runs["coach"].tokens_per_second,
    "The seats of those who ended early are used. But look at the stripes: in both, most of the "
    "memory "
    "is held for tokens that never come.",
)

# %% paged-say [markdown]
# Now *pages as they are needed*, prompts in chunks of a budget of 256 tokens, and preemption when
# the pool is full. That policy is yours to write: it is exercise 12.3. Here is what the course's
# own makes of the first pool and these requests (a recorded run).

# %% predict-paged
p_paged = Predict(
    "12-paged",
    "The same 60 requests, the same 64 pages, but nothing is set aside. How many times as many "
    "tokens "
    "a second as the tram?",
    options=["about as many: memory was not the wall", "about 1.7 times", "about 4 times"],
)
p_paged

# %% paged
# @title A picture: the third policy, pages as they are needed
runs["pages as needed, chunks"] = serving.paged()
serving.draw_memory(runs)

# %% paged-table
serving.compare(runs)

# %% reveal-paged
p_paged.reveal(
    "about 1.7 times",
    "More requests fit, so each reading of the weights serves more of them. Some were thrown out "
    "and "
    "computed again, and it paid.",
)

# %% sim-say [markdown]
# Two gains, and they multiply: the batch is refilled, and memory is held for what is there. Neither
# made a kernel faster. Now play: give the pool 256 pages, or let the requests come faster. When is
# the tram hardly better than the coach, and when can no policy be?

# %% play
pages, every = 64, 0.02  # the pool; the seconds from one arrival to the next
serving.compare({"coach": serve(coach, pages, every), "tram": serve(tram, pages, every)})

# %% thrown-out [markdown]
# (When everybody who comes is served at once, nobody can be faster than the arrivals.)
#
# Who is thrown out is a choice, too. The *newest* has the least to lose, and the oldest is sure to
# get through. vLLM throws out, and computes again instead of copying the pages away (its
# documentation, 2025). And who is admitted first? "The shortest first" makes the average wait
# shorter, and lets a long prompt wait for ever. 12.3 has a rule against it.

# %% latent-heading [markdown]
# ## A thinner book: latent attention
#
# If memory is the wall, keep less. Lesson 10 met **MLA**, *multi-head latent attention*
# (DeepSeek-V2, 2024). How thin is it? DeepSeek-V2 has 128 heads of d = 128. Kept for each token and
# layer:
#
# | | numbers | bytes in bf16 |
# |---|---|---|
# | K and V of all heads | 2 · 128 · 128 = 32,768 | 65,536 |
# | with 8 K/V heads (GQA) | 2 · 8 · 128 = 2,048 | 4,096 |
# | latent: one row for all heads | 512 + 64 = **576** | **1,152** |
#
# 57 times less than the first line, and it is *not* one head for all (which would be 256 numbers
# and a weaker model): each head has keys and values of its own, **made** from the row. Head h's key
# is W_h · c, with c the 512 kept numbers and W_h a learnt matrix, 128 × 512.
#
# But then each step would have to make K of all heads again, for every token of the cache? Move the
# brackets: **q · (W c) = (Wᵀ q) · c**. Multiply the *query* by the matrix, once, and meet the kept
# rows as they are. Below in small: 3 heads of 4 numbers, rows of 8, 6 tokens.

# %% predict-absorb
p_absorb = Predict(
    "12-absorb",
    "128 heads, d = 128, 8192 tokens in the cache. How many numbers does the left side (make K "
    "first) "
    "make for one query, and the right side (absorb W into the query) not?",
    options=["about 1 million", "about 134 million", "about 4 million"],
)
p_absorb

# %% absorb
rng = np.random.default_rng(12)
c = rng.normal(size=(6, 8))  # what is kept: 6 tokens, 8 numbers each
w = rng.normal(size=(3, 4, 8))  # a matrix for each of 3 heads
q = rng.normal(size=(3, 4))  # one query in 3 heads
k = np.einsum("hdr,nr->hnd", w, c)  # (3, 6, 4) the keys of every head
expanded = np.einsum("hd,hnd->hn", q, k)
absorbed = np.einsum("hd,hdr->hr", q, w) @ c.T  # (3, 8) @ (8, 6)
print("largest difference of the scores:", np.abs(expanded - absorbed).max())
print(f"K of 128 heads, 8192 tokens: {128 * 8192 * 128:,} numbers")
print(f"absorbed queries: {128 * 512:,} numbers")

# %% reveal-absorb
p_absorb.reveal(
    "about 134 million", "All of K, in every step. The absorbed query is 65,536 numbers."
)

# %% absorb-say [markdown]
# The values can be treated alike: brackets again, on the other side of the softmax. 12.1 asks you
# for it. Two things are not obvious.
#
# **The other 64 numbers.** Positions are put into keys by *rotating* them (rotary embedding), by an
# angle that depends on the token. A rotation between q and W c cannot be absorbed: it is another
# one for every key. So a small rotated key, 64 numbers, is kept beside c, and its score is added.
#
# **The scale.** Absorbed, a query has 512 + 64 = 576 numbers.

# %% predict-scale
p_scale = Predict(
    "12-scale",
    "By what are the absorbed scores divided, before the softmax?",
    options=["√576: the query has 576 numbers", "√192: 128 + 64", "√128: the head dimension"],
)
p_scale

# %% reveal-scale
p_scale.reveal(
    "√192: 128 + 64",
    "Moving brackets does not change a score, so it cannot change its scale: the query that the "
    "model "
    "was trained with has 128 numbers for W c and 64 rotated ones.",
)

# %% compute-bound [markdown]
# **And the dial?** All 128 heads read the same row, so decode has 128 rows a key without any
# drafts: multi-query attention with d = 576 for scores and 512 for values. By hand: 128 · 2 · (576
# + 512) FLOPs for 1,152 bytes.

# %% dial-run
for name, queries in (("one query", 1), ("with one draft", 2)):
    print(f"{name:15} {model.latent_intensity(128 * queries):4.0f} FLOP/byte")
print(f"ridge of an H100, nominal: {GPUS['H100'].ridge:.0f}")

# %% dial-say [markdown]
# So the rule "decode waits for memory" has an exception. The authors of FlashMLA reckon with the
# clock that their H800 really holds under load, 865 TFLOP/s for 3.35 TB/s: a ridge at 258, and they
# call the kernel **compute-bound** (their write-up, April 2025). With one draft there is no doubt.
# A thin book is read by so many that arithmetic becomes the wall.

# %% flashmla [markdown]
# ## FlashMLA, in a page
#
# [FlashMLA](https://github.com/deepseek-ai/FlashMLA) is DeepSeek's library of kernels for this.
# What follows is from its README and its write-up of April 2025.
#
# - **What it takes**: q with 576 numbers a head, a *paged* cache of latent rows (pages of 64), a
#   block table, lengths. K and V are one tensor: V is its first 512 columns. They are loaded once.
# - **A plan first**: one call deals the pages to SMs, once a step; all layers use the plan. Splits
#   of the keys are merged by lse, as in lesson 10.
# - **The obstacle**: one tile of O is 64 × 512 fp32 numbers, 32,768 registers. An SM has 65,536: a
#   second tile, which FlashAttention-3 would use to overlap products and exponentials, does not
#   fit.
# - **The way out** ("seesaw"): the tile is cut into a left and a right half, for two groups of
#   warps. Each computes the weights of another block of keys and both use both. Still lesson 03's
#   algorithm: rescale when the maximum rises.
# - **What it reaches** on an H800, as its README says: up to 660 TFLOP/s where arithmetic is the
#   wall, 3000 GB/s where memory is.
#
# With d = 576 an ordinary FlashAttention kernel is out: it is compiled for d up to 256.

# %% small-heading [markdown]
# ## Fewer bytes a number: int8 and fp8 caches
#
# A cache in one byte a number is half as large, and decode waits for its bytes. Two formats:
#
# - **int8**: the whole numbers from −127 to 127, all one step apart, times a *scale*;
# - **fp8** (e4m3): a floating point number with 3 bits behind the leading one: near 1 a step is
#   1/8, near 256 it is 32.
#
# Let us round K, with *one scale for the whole tensor*, in which two heads stand, and look at the
# output of the first. Then once more, when the keys of the **other** head are 100 times as long.
# (In real models some heads and some tokens have much larger numbers than the rest.)

# %% predict-int8
p_int8 = Predict(
    "12-int8",
    "The other head's keys are 100 times as long, ours are what they were. Whose output of our "
    "head "
    "is ruined?",
    options=["int8's", "fp8's", "nobody's: our keys did not change"],
)
p_int8


# %% round-code
def int8(x):
    """Round x to int8 with one scale, and back."""
    scale = np.abs(x).max() / 127
    return np.rint(x / scale) * scale


def fp8(x):
    """Round x to fp8 (e4m3) with one scale, and back; 448 is its largest number."""
    scale = np.abs(x).max() / 448
    return scale * torch.tensor(x / scale).to(torch.float8_e4m3fn).double().numpy()


# %% round-run
q, k, other, v = (rng.normal(size=(n, 64)) for n in (16, 1000, 1000, 1000))
exact = naive(q, k, v)
table = []
for times in (1, 100):
    both_heads = np.stack([k, times * other])  # (2, 1000, 64) one tensor, one scale
    found = [naive(q, way(both_heads)[0], v) for way in (int8, fp8)]
    table.append((times, *(100 * np.abs(o - exact).max() / np.abs(exact).max() for o in found)))
columns = ("the other head's keys, times", "int8: error of o, %", "fp8: error of o, %")
Table(columns, table, dict.fromkeys(columns[1:], ".1f"), note="Largest error over largest o.")

# %% reveal-int8
p_int8.reveal(
    "int8's",
    "The one scale must hold the largest number of all. Then a step of int8 is longer than most "
    "of our "
    "numbers, and they are rounded to 0. The steps of fp8 shrink with the number.",
)

# %% small-say [markdown]
# And where all keys are alike, int8 is the better of the two: its steps are finer. So one scale for
# everything is too coarse. Who should have a scale of his own? That is 12.2. A scale costs bytes,
# too: 4 for each row of 128 numbers are 132 in place of 256, 52 %.
#
# FlashMLA's fp8 cache keeps a token in 656 bytes in place of 1,152: 512 numbers in fp8, a scale for
# each 128 of them (4 · 4 bytes), and **the 64 rotary numbers stay in bf16**, 128 bytes, "for
# accuracy" (README, 2025). It multiplies in bf16: the cache is small, the products are not.
#
# **An int8 cache is not free.** It costs error (measure it on your model, not on random numbers),
# the scales, and work: each number is converted before it is multiplied. Where memory is the wall,
# that work was idle anyway. Where arithmetic is, as with 128 latent heads, it is not.

# %% sparse [markdown]
# ## Not reading at all: sparse attention, in a page
#
# A cached row can be thinner, or smaller, or *skipped*. DeepSeek-V3.2-Exp (September 2025) skips
# (*DeepSeek Sparse Attention*):
#
# 1. A small **indexer**, with few heads and in fp8, gives every token of the cache a score for this
#    query. It is cheap for each token, but it looks at all of them.
# 2. The best 2048 are chosen.
# 3. Attention reads these, and no others. FlashMLA's sparse kernel takes their places as a tensor
#    `indices`: page number times page size plus slot. That is lesson 11's table with pages of one
#    token.
#
# By hand: at 131,072 tokens it reads 2048 rows in place of 131,072, 64 times fewer. And the
# indexer's reading stays.
#
# **This is not FlashAttention's kind of saving.** FlashAttention is exact. Here most tokens get
# weight zero, and the answer is another one. It works since the model was *trained* on so: the
# indexer first learns to imitate the full attention's weights, then all learn together (the model's
# report). A window (lesson 04) and eviction (11★) are its poorer relatives: they choose without
# looking at the query.

# %% defaults-heading [markdown]
# ## What servers choose by default
#
# As of the source's date; these lists change every few months.
#
# | | A100, L4 | H100 | B200 | latent rows: H100, B200 |
# |---|---|---|---|---|
# | vLLM (1) | FA2 | FA3 | FlashInfer | FA3, FlashInfer |
# | SGLang (2) | FlashInfer, else Triton | FA3 | TRT-LLM | FA3, TRT-LLM |
# | FlashInfer, "auto" (3) | FA2 | FA3, else FA2 | FA2 | – |
# | PyTorch SDPA (4) | FA2 | cuDNN, else FA2 | cuDNN, else FA2 | – |
#
# FA2 and FA3 are FlashAttention-2 and -3 (FlashInfer has kernels of its own after both), TRT-LLM is
# NVIDIA's TensorRT-LLM, whose kernels FlashInfer brings along. Sources: (1) documentation of
# attention backends, commit 0013943, 2026; (2) its documentation in a copy of 2026; (3) its source
# in a copy of 2026: there B200 kernels are chosen by name, as vLLM does; (4) source of the
# dispatcher, commit 001f694, 2026: cuDNN if it is newer than 9.15.
#
# How do they choose? vLLM's documentation and PyTorch's source describe the same loop: *go through
# a list in order of priority, check each entry against what is asked, take the first that passes;
# if none does, say every reason.* So what matters is the list of what each kernel supports:

# %% checklist
checklist()

# %% checklist-say [markdown]
# Try one by hand: an A100 (gpu 80), bf16, d = 128, causal, pages of 16, a mixed batch. FlashMLA:
# only gpu 90. FlashAttention-4: from 100. -3: only 90. -2: its own pages have 256 slots, or a
# multiple. FlashInfer: passes. **Special kernels stand at the top and fail often; general ones
# stand below.** 12.4 asks you for the loop, and for six situations.

# %% shown [markdown]
# ## What was shown, and what was not
#
# **Shown.** Refilling seats took 9 steps in place of 11 (by hand and run). In the simulation the
# tram made about twice the coach's tokens a second, and pages as needed 1.7 times the tram's, with
# one cost model, one stream of requests, one pool. 512 tokens of a prompt ride for free on 60
# answers (by the same model). Absorbed scores equal expanded ones (run). 128 heads on one row bring
# 242 FLOP/byte (formula). One scale for all heads ruins int8 where they differ (run, on random
# numbers).
#
# **Not shown.** Any of it on a GPU: the clock was the roofline, without attention's FLOPs, launches
# or the scheduler's own time. What a real stream of requests looks like; longer answers, other
# pools give other factors. Whether an answer stays good with an fp8 cache or with 2048 chosen
# tokens: that is measured on models, not on tensors. The numbers of FlashMLA are its authors'.

# %% questions [markdown]
# ## Questions
#
# Decide before you open.

# %% quiz-24
Quiz(
    "In June 2023 vLLM was announced with “up to 24 times the throughput of HuggingFace "
    "Transformers”, "
    "and up to 3.5 times that of a server (TGI). What does the 24 measure?",
    options=[
        ("How much faster paged attention computes.", False, "Its kernel reads the same bytes."),
        (
            "Tokens a second, against a library without pages and without continuous batching.",
            True,
            "Both numbers may be right: the server of the 3.5 batched continuously already. Always "
            "ask: against what?",
        ),
        (
            "How much memory pages save.",
            False,
            "That is why more fit; the unit is tokens a second.",
        ),
    ],
)

# %% quiz-batch
Quiz(
    "Three seats; four requests want 5, 1, 1 and 4 tokens, in this order. After how many steps "
    "has the "
    "tram brought all of them home?",
    answer=5,
    explanation="The fourth gets on in step 2 and ends in step 5, with the first. The coach: 5 + 4 = 9.",
)

# %% quiz-chunk
Quiz(
    "To make the first token of a long prompt come sooner, you raise the budget of a step from "
    "512 to "
    "8192 tokens. Who pays?",
    options=[
        ("Nobody: the same FLOPs are computed.", False, "The same, but all in one step."),
        ("Whoever is decoding: his next token waits for the long step.", True, "133 ms, not 9."),
        ("The prompt itself.", False, "It is ready a little sooner: it reads its rows less often."),
    ],
)

# %% quiz-mla
Quiz(
    "A model with 16 heads on latent rows (576 numbers, 512 of them values), bf16. How many FLOPs "
    "a "
    "byte does its absorbed decode have, about?",
    answer=30,
    explanation="16 · 2 · (576 + 512) / 1152 = 30.2. It waits for memory. 128 heads are what makes the "
    "difference.",
)

# %% quiz-int8
Quiz(
    "“An int8 cache halves the bytes of K and V, so it is free speed.” What is missing?",
    options=[
        ("Nothing.", False, "Three things are."),
        (
            "The error, the bytes of the scales, and the work of converting.",
            True,
            "Where memory is the wall it is often worth it. It is a price all the same.",
        ),
        ("It must be trained for.", False, "Most caches are quantised after training."),
    ],
)

# %% quiz-window
Quiz(
    "A model with sliding-window layers on a T4, fp16, d = 128, pages of 16, answers only. Which "
    "entry of "
    "the checklist serves it?",
    options=[
        ("FlashAttention-2", False, "It begins at gpu 80, an A100."),
        ("SDPA efficient", False, "It knows the T4, but no pages, and no window of its own."),
        (
            "FlashInfer",
            True,
            "From 75 on, with windows and pages of 16. No gradients, and none are asked.",
        ),
    ],
)

# %% exercises [markdown]
# ## Your turn
#
# Open `exercises/12_serving.ipynb`. 12.1 is latent attention, absorbed; 12.2 a cache in int8; 12.3
# the scheduler, judged on streams of requests that you have not seen; 12.4 the choice of a kernel.

# %% next [markdown]
# ## What comes next
#
# One GPU is full. The next question is what several of them should send each other: the papers, K
# and V, or the sticky notes, o and lse? The course ends here for now.
#
# **To read:**
# - Yu and others: *Orca* (OSDI 2022): the tram.
# - Agrawal and others: *Sarathi-Serve* (2024),
#   [arXiv:2403.02310](https://arxiv.org/abs/2403.02310): chunks, and whom they help.
# - DeepSeek-AI: *DeepSeek-V2* (2024), [arXiv:2405.04434](https://arxiv.org/abs/2405.04434), section
#   2.1: latent attention in two pages.
