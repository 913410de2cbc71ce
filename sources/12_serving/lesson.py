# %% title [markdown]
# # 12 · Serving: who goes next?
#
# **You need:** lesson 02 (the roofline), lesson 10 (prefill, decode, the dial), lesson 11 (pages).
# No GPU.
#
# **You will be able to:** say what a server computes in each step, and who waits for it; cut a long
# prompt so that nobody's next token stops; attend to latent rows as they are cached; keep a cache in
# one byte a number and see what it costs; choose a kernel, with the reason.
#
# **Time:** 78 minutes for this lesson, 115 for its exercises.

# %% question [markdown]
# ## The question
#
# So far somebody told us what to compute. Now we are the server. Requests come when they like. Each
# has a prompt, whose length we see, and wants an answer, **whose length nobody knows before it
# ends**. There is one GPU, one pool of pages, and the next step.
#
# **Who goes next?**

# %% imports
import numpy as np
import torch

from course_lib.accounting import decode_traffic as model
from course_lib.accounting.backends import checklist
from course_lib.accounting.hardware import GPUS
from course_lib.accounting.serving import Costs, simulate
from course_lib.attention import naive
from course_lib.figures import serving
from course_lib.style.table import Table
from course_lib.widgets import Predict, Quiz, ServerMemory

# %% picture [markdown]
# ## The picture: a coach and a tram
#
# A **coach** leaves with whoever is there. At its stops people get off, and their seats stay empty.
# When the *last* one has got off, it takes the next party.
#
# A **tram** lets people off as well. But at every stop those who wait get on.
#
# A seat is room for one request, a stop is a *step* of the server: everybody on board gets one
# token. The coach is **static batching**, the tram **continuous batching** (Orca, 2022, called it
# *iteration-level scheduling*).

# %% by-hand [markdown]
# ## A number by hand: four requests, two seats
#
# A wants 2 tokens, B 7, C 4, D 3. There are two seats. First the coach:
#
# | steps | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 |
# |---|---|---|---|---|---|---|---|---|---|---|---|
# | seat 1 | A | A | – | – | – | – | – | C | C | C | C |
# | seat 2 | B | B | B | B | B | B | B | D | D | D | – |
#
# **11 steps**, and 6 of the 22 places are empty. C, who was there from the start, gets a first token
# in step 8. Now draw the same table for the tram, on paper.

# %% predict-tram
p_tram = Predict(
    "12-tram",
    "The tram: a seat that gets free is taken in the next step, in the order A B C D. After how "
    "many steps has everybody ended?",
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
    "C gets on in step 3, when A has got off. The same 16 tokens, in fewer steps.",
)

# %% free-seat [markdown]
# What does an empty seat cost? A decode step waits for memory (lesson 10), and it reads *all weights
# of the model*, for one request as for sixty. **So fill the step.**
#
# A server is judged by three numbers, and they pull in different directions:
#
# - **throughput**: tokens a second, of all together;
# - **time to the first token**: how long a request waits for its answer to begin;
# - **time between tokens**: how smoothly the answer then comes.

# %% prompt-heading [markdown]
# ## The long prompt at the door
#
# 60 requests decode, each with 2000 rows in the cache. A prompt of 8192 tokens comes. On the tram
# all of it is computed in the next step, together with the others' tokens.
#
# How long is a step? Our *cost model* is lesson 02's roofline: bytes over bandwidth or FLOPs over
# speed, whichever takes longer.
#
# - Bytes: all weights, 8 billion in bf16, 16 GB; and the cached rows, 128 KiB each in all 32 layers:
#   15.7 GB.
# - FLOPs: 2 for each weight and token. (Attention's own are left out, and launches.)
# - An H100 reads 3350 GB and computes 989 TFLOP in a second.

# %% predict-prompt
p_prompt = Predict(
    "12-prompt",
    "All 60 wait for the step that takes the whole prompt along. How many times as long as a usual "
    "step is it?",
    unit="times",
    least=1,
)
p_prompt

# %% chunks
costs = Costs()  # 8 billion weights, 32 layers, 8 K/V heads, an H100
rows, usual = 60 * 2000, costs.seconds(60, 60 * 2000)
table = []
for chunk in (8192, 2048, 1024, 512, 256):
    step = costs.seconds(60 + chunk, rows + chunk)
    table.append((chunk, 1e3 * step, step / usual, 8192 // chunk, 8192 // chunk * 1e3 * step))
columns = ("prompt's tokens a step", "a step, ms", "usual steps", "steps", "prompt, ms")
formats = {"a step, ms": ",.1f", "usual steps": ".1f", "prompt, ms": ",.0f"}
Table(columns, table, formats, note=f"By the cost model. A usual step: {1e3 * usual:.1f} ms.")

# %% reveal-prompt
p_prompt.reveal(
    costs.seconds(60 + 8192, rows + 8192) / usual,
    "The usual step waits for bytes. This one waits for arithmetic: 16 billion FLOPs a token.",
)

# %% chunk-say [markdown]
# So the prompt is cut into **chunks**: *chunked prefill* (Sarathi, 2023). With 512 tokens a step
# nobody notices it. The usual step leaves the arithmetic idle, so these tokens ride along **for
# free**, on weights that are read anyway.
#
# How many are free? A weight has 2 bytes and makes 2 FLOPs a token: T tokens make T FLOPs a byte, and
# the ridge of an H100 is at 295 (lesson 02). Here the caches double the bytes, and so the free
# tokens: 295 · 2 is about 590. The answers take 60, so about 530 are free, and a chunk of 512 fits.
# Smaller is not better: 256 tokens ride in a step that is no shorter, so the prompt takes twice as
# many steps, and is ready twice as late (the last column).
#
# So each step gets a **budget** of tokens: first one for everybody who decodes, the rest for chunks
# of prompts (vLLM's default, by its documentation).
#
# The price: a chunk attends to all chunks before it, and reads their K and V again. The table leaves
# that out. How much is it, beside the weights that the 16 steps read anyway?

# %% reread-run
before = sum(range(0, 8192, 512))  # the rows before each of the 16 chunks
print(f"{before:,} rows, {before / 8192} times 8192: {before * costs.row_bytes / 1e9:.1f} GB")
print(f"weights in 16 steps: {16 * costs.weights * costs.b / 1e9:.0f} GB")

# %% reread-say [markdown]
# 8.1 GB in all, beside 256 GB of weights: a small price.

# %% mixed-heading [markdown]
# ## A mixed batch, and the kernel it asks for
#
# Now a step holds 60 answers, with one query each, and a chunk, with 512. The products with weights
# do not mind: 572 rows are 572 rows. **Attention does**, since each request has keys of its own. With
# groups of 4 heads packed (lesson 10), an answer has 4 rows of queries, the chunk 4 · 512. What does
# one tile size for all do to them? An answer fills 4 rows of its tile, the others idle. And each tile
# of the chunk's query rows loads all keys and values once for itself: more tiles, more loads.

# %% tiles
table = [(tile, 100 * (1 - 4 / tile), 4 * 512 // tile) for tile in (16, 64, 128)]
columns = ("rows a tile", "answers: idle rows, %", "chunk: K and V loaded, times")
Table(columns, table, {columns[1]: ".0f"}, note="By formula.")

# %% mixed-say [markdown]
# No size suits both, so **what is in the step decides which kernel runs.** Three ways out:
#
# 1. *Two launches*: a decode kernel for the answers, a prefill kernel for the chunks.
# 2. *One launch, planned*: the host deals out the work beforehand so that all programs end together
#    (FlashInfer). *POD-Attention* (2024) puts prefill and decode on one SM at the same time: one
#    waits for memory while the other multiplies.
# 3. *One varlen kernel* (lesson 10), and a tile that suits neither quite.

# %% wall-heading [markdown]
# ## Memory is the wall
#
# A server runs out of pages before it runs out of seats. A request holds its rows *until it ends*,
# and nobody knows when. Two ways to be wrong:
#
# - **Set aside the longest it could get.** Then most of it stays empty (lesson 11).
# - **Admit as long as there are pages.** Then one day everybody needs one more, and there is none.
#   Somebody is *preempted*: the pages are freed, and the tokens computed again later.
#
# A *policy* is asked before each step. It is told
#
# - who waits: `{id: tokens of the prompt}`;
# - who runs: `{id: (rows in the cache, tokens to compute)}`, 0 to compute once the answer has ended;
# - how many pages are free.
#
# It says how many tokens of whom are computed, and who leaves. Here are two. Both set aside room for
# 256 tokens a request, the longest there can be: prompts have up to 128 here, answers up to 128.


# %% coach
def coach(waiting, running, free_pages, *, budget, page_size):
    """Nobody gets on before the last has got off. (`budget` is for the third policy.)"""
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
def serve(policy):
    """Serve 60 requests, one each 20 ms or so, from 64 pages of 16 rows."""
    requests = serving.requests()
    return simulate(policy, requests, pages=64, page_size=16, budget=8192, reserved=256)


# %% predict-sim
p_sim = Predict(
    "12-sim",
    "60 requests, one every 20 ms; answers of 4 to 128 tokens, most of them short. The pool has "
    "room for 4 requests of 256 tokens. How many times as many tokens a second does the tram make?",
    unit="times",
)
p_sim

# %% sim
runs = {"coach": serve(coach), "tram": serve(tram)}
serving.draw_memory(runs)

# %% reveal-sim
p_sim.reveal(
    runs["tram"].tokens_per_second / runs["coach"].tokens_per_second,
    "Free seats are taken. But look at the stripes: both hold most of the memory for nothing.",
)

# %% paged-say [markdown]
# A third policy takes *pages as they are needed*, computes prompts in chunks with a budget of 256
# tokens a step, and throws out the newest when no page is left. You will write it in 12.3; the runs
# below are recorded ones of the course's own.

# %% predict-paged
p_paged = Predict(
    "12-paged",
    "The same requests and pages, but nothing is set aside. How many times as many tokens a second "
    "as the tram?",
    options=["about as many: memory was not the wall", "about 1.7 times", "about 4 times"],
)
p_paged

# %% instrument [markdown]
# ## The instrument: three policies, one clock
#
# Each request is a line: grey while it waits, dark while it is answered, and thin once it has its answer
# and still holds its memory. Beside or below is the pool at one moment, which you drag: dark rows are used,
# striped ones are held for nothing. Under *more* is what share of the held rows that was on the average. There
# too, the *longest first-token wait* is how long the unluckiest request waited for its first token, the
# *longest step for a token* the longest step in which somebody's answer was computed, and *times thrown
# out* is how often a request lost its pages before it had ended.

# %% server-memory
ServerMemory()

# %% reveal-paged
p_paged.reveal(
    "about 1.7 times",
    "More requests fit, so more of them share each reading of the weights. Throwing some out and "
    "computing them again cost less than that brought.",
)

# %% sim-say [markdown]
# Two gains, and they multiply: free seats are taken, and memory is held only for what is there.
# Neither made a kernel faster. Now play, and guess before each move:
#
# 1. Let a request come every 40 ms. Who is still slowed down by memory?
# 2. Then back to 20 ms, and 4096 rows (256 pages). What is left of the third policy's lead?
# 3. Keep these pages, and let prompts be up to 896 tokens long. Whose steps get longer? (Who
#    computes a prompt whole, while others wait for a token?)
#
# The next cell prints all three, when you have guessed.

# %% sim-answers folded=true
# @title The three moves, as text
print(ServerMemory(every=40).to_table())
print("1. The coach (static) most, the tram (continuous) a little.\n")
print(ServerMemory(pages=256).to_table())
print("2. Nothing: the tram makes as many tokens a second.\n")
print(ServerMemory(pages=256, prompt=896).to_table())
print(
    "3. The tram's: it computes a prompt whole while others wait for a token. (The coach computes"
)
print("   prompts whole, too, but then nobody on board waits for a token.)")

# %% sim-own [markdown]
# When 12.3 is done, `ServerMemory(next_batch)` gives your own policy a lane.

# %% thrown-out [markdown]
# Who is preempted is a choice, too. The *newest* has the least to compute again, and the oldest is
# sure to get through. And who is admitted first? "The shortest first" makes the average wait shorter,
# but a long prompt may wait for ever. 12.3 has a rule against that.

# %% latent-heading [markdown]
# ## A thinner book: latent attention
#
# If memory is the wall, keep less. Lesson 10 met **MLA**, *multi-head latent attention*. How thin is
# its cache? DeepSeek-V2 (2024) has 128 heads of d = 128. For each token and layer one could keep:
#
# | | numbers | bytes in bf16 |
# |---|---|---|
# | K and V of all heads | 2 · 128 · 128 = 32,768 | 65,536 |
# | with 8 K/V heads (GQA) | 2 · 8 · 128 = 2,048 | 4,096 |
# | latent: one row for all heads | 512 + 64 = **576** | **1,152** |
#
# 57 times less than the first line. Yet each head has keys and values of its own, **made** from the
# row: head h's key is W_h · c, where c are the 512 kept numbers and W_h is a learnt matrix, 128 × 512.
#
# Must each step make K of all heads again, for every cached token? No. Move the brackets:
# **q · (W c) = (Wᵀ q) · c**. The matrix is *absorbed* into the query, and the query meets the kept
# rows as they are. In small: 3 heads of 4 numbers, rows of 8, 6 tokens.

# %% absorb
rng = np.random.default_rng(12)
# h: a head, d: a number of the head (4), r: a number of the row (8), n: a token
c = rng.normal(size=(6, 8))  # what is kept: 6 tokens, 8 numbers each
w = rng.normal(size=(3, 4, 8))  # a matrix for each of 3 heads
q = rng.normal(size=(3, 4))  # one query in 3 heads
k = np.einsum("hdr,nr->hnd", w, c)  # (3, 6, 4) the keys of every head
expanded = np.einsum("hd,hnd->hn", q, k)
absorbed = np.einsum("hd,hdr->hr", q, w) @ c.T  # (3, 8) @ (8, 6)
print("largest difference of the scores:", np.abs(expanded - absorbed).max())
print(f"K of 128 heads, 8192 tokens: {128 * 8192 * 128:,} numbers")
print(f"absorbed queries: {128 * 512:,} numbers")

# %% absorb-say [markdown]
# So nothing has to be made of the cached rows. The values are treated alike, on the other side of the
# softmax: 12.1. Two things are not obvious.
#
# **The other 64 numbers.** Keys are told their positions by a *rotation* (rotary embedding), another
# one for every token. It would stand between q and W c, and cannot be absorbed. So a small rotated
# key, 64 numbers, is kept beside c, and its score is added.
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
    "Moving brackets changes no score, so no scale either: the model was trained with queries of "
    "128 numbers for W c and 64 rotated ones.",
)

# %% compute-bound [markdown]
# **And lesson 10's dial?** All 128 heads read the same row. It is multi-query attention, with 576
# numbers for scores and 512 for values: 128 · 2 · (576 + 512) FLOPs for 1,152 bytes.

# %% dial-run
for name, queries in (("one query", 1), ("two queries", 2)):
    print(f"{name:15} {model.latent_intensity(128 * queries):4.0f} FLOP/byte")
print(f"ridge of an H100, nominal: {GPUS['H100'].ridge:.0f}")

# %% dial-say [markdown]
# One query stands at 242, below the nominal 295: still memory, but barely. With two, the newest
# token's and one draft's, it is 484, and arithmetic is the wall. FlashMLA's authors call even one query
# **compute-bound** (write-up, April 2025): they estimate about 2 · 128 = 256, and their H800 holds
# 865 TFLOP/s under load, a ridge at 258: nearly the same number.

# %% flashmla [markdown]
# ## FlashMLA, in a page
#
# (For reference: skip it at first reading.)
#
# [FlashMLA](https://github.com/deepseek-ai/FlashMLA) is DeepSeek's library of kernels for this. By
# its README and its write-up of April 2025:
#
# - **It takes** queries of 576 numbers, a *paged* cache of latent rows (pages of 64), block table and
#   lengths. A row is key and value at once: its first 512 numbers are the value.
# - **A plan first**: one call deals the pages to SMs, for all layers of a step. Splits of the keys are
#   merged by lse, as in lesson 10.
# - **The obstacle**: one tile of O is 64 × 512 fp32 numbers, 32,768 registers of an SM's 65,536.
#   FlashAttention-3 overlaps products and exponentials with two tiles. Here a second does not fit.
# - **The way out** ("seesaw"): the tile is cut into a left and a right half, for two groups of warps.
#   Each makes the weights of another block of keys, and both use both. Still lesson 03: rescale when
#   the maximum rises.
# - **Speed** on an H800, by its README: up to 660 TFLOP/s where arithmetic is the wall, 3000 GB/s
#   where memory is.

# %% small-heading [markdown]
# ## Fewer bytes a number: int8 and fp8 caches
#
# One byte a number halves the cache, and what decode reads. Two formats:
#
# - **int8**: whole numbers from −127 to 127 times a *scale*, so all steps are equally long;
# - **fp8** (e4m3): a floating point number with 3 bits behind the leading one: a step is 1/8 near 1
#   and 32 near 256.
#
# We round K, in which two heads stand, with *one scale for all*, and look at the output of the first
# head. Then once more, when the keys of the **other** head are 100 times as long.

# %% predict-int8
p_int8 = Predict(
    "12-int8",
    "The other head's keys are 100 times as long, ours are what they were. In which format is the "
    "output of our head ruined?",
    options=["int8", "fp8", "neither: our keys did not change"],
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
rng = np.random.default_rng(12)
errors = {1: [], 100: []}
for times in 25 * list(errors):
    q, k, other, v = (rng.normal(size=(n, 64)) for n in (16, 1000, 1000, 1000))
    both_heads = np.stack([k, times * other])  # (2, 1000, 64) one tensor, one scale
    exact, *found = (naive(q, kept, v) for kept in (k, int8(both_heads)[0], fp8(both_heads)[0]))
    errors[times].append([100 * np.abs(o - exact).max() / np.abs(exact).max() for o in found])
table = [(times, *np.median(both, 0)) for times, both in errors.items()]
columns = ("the other head's keys, times", "int8: error of o, %", "fp8: error of o, %")
Table(
    columns,
    table,
    dict.fromkeys(columns[1:], ".1f"),
    note="Largest error over largest o; median of 25 draws.",
)

# %% reveal-int8
p_int8.reveal(
    "int8",
    "The one scale must hold the largest number of all. Then a step of int8 is longer than most of "
    "our numbers, and they become 0. The steps of fp8 shrink with the number, and its error stays.",
)

# %% small-say [markdown]
# Where all keys are alike, int8 is the better one: its steps are finer. So one scale for everything
# is too coarse. Whose should it be? That is 12.2. And scales are bytes: 4 beside each row of 128
# numbers make 132 in place of 256, 52 %.
#
# FlashMLA's fp8 cache keeps a token in 656 bytes in place of 1,152: 512 numbers in fp8, a scale for
# each 128 of them, and **the 64 rotary numbers in bf16**, "for accuracy" (README). Each number is
# converted to bf16 before it is multiplied. That is work, and where arithmetic is the wall it costs
# time.

# %% sparse [markdown]
# ## Not reading at all: sparse attention, in a page
#
# A cached row can also be *skipped*. DeepSeek-V3.2-Exp (September 2025) does it:
#
# 1. A small **indexer**, with few heads and in fp8, gives every cached token a score for this query.
# 2. The best 2048 are chosen.
# 3. Attention reads these, and no others. FlashMLA's sparse kernel takes their places as a tensor
#    `indices`, page times page size plus slot: lesson 11's table with pages of one token.
#
# By hand: of 131,072 rows attention reads 2048, 64 times fewer. The indexer still looks at all.
#
# **This is not FlashAttention's kind of saving.** FlashAttention is exact. Here most tokens get
# weight zero: another answer. The model is *trained* for it: the indexer first learns to imitate the
# weights of full attention, then all learn together (the model's report). A window (lesson 04) and
# eviction (11★) skip rows, too, without looking at the query.

# %% defaults-heading [markdown]
# ## What servers choose by default
#
# (For reference: skip the table at first reading.) As of 2026; such lists change every few months.
#
# | | A100, L4 | H100 | B200 | latent rows: H100, B200 |
# |---|---|---|---|---|
# | vLLM (1) | FA2 | FA3 | FlashInfer | FA3, FlashInfer |
# | SGLang (1) | FlashInfer, else Triton | FA3 | TRT-LLM | FA3, TRT-LLM |
# | FlashInfer, "auto" (2) | FA2 | FA3, else FA2 | FA2 | – |
# | PyTorch SDPA (3) | FA2 | cuDNN, else FA2 | cuDNN, else FA2 | – |
#
# FA2 and FA3 are FlashAttention-2 and -3 (FlashInfer has kernels of its own after both); TRT-LLM are
# NVIDIA's. Sources: (1) their documentation of attention backends, vLLM's at commit 0013943; (2) its
# source; on a B200 its other kernels are chosen by name; (3) source of the dispatcher, commit
# 001f694: cuDNN if it is newer than 9.15.
#
# vLLM and PyTorch choose by the same loop: *go through a list in order of priority, check each entry
# against what is asked, take the first that passes; if none does, say the reasons.* So what matters
# is what each kernel supports. In the columns: *gpu*, the oldest and the newest (80 A100, 89 L4, 90
# H100, 100 B200); *dtype*, of q, k and v; *cache*, what K and V are kept in; *d*, head dimensions (576
# is a latent row: the list has one kernel for it, and the libraries above have others, under the
# names of the table); *page*, slots of a page; *mixed*, prefill and decode in one launch; *backward*,
# gradients.

# %% checklist
checklist()

# %% checklist-say [markdown]
# By hand: an A100 (gpu 80), bf16, d = 128, causal, pages of 16, a mixed batch. FlashMLA and
# FlashAttention-3 want gpu 90, FlashAttention-4 at least 100. FlashAttention-2 has pages of 256 slots
# or a multiple. (vLLM's own build of it takes 16, hence its line above.) FlashInfer passes. **Special
# kernels stand at the top and fail often; general ones stand below.** In 12.4 you write the loop.

# %% shown [markdown]
# ## What was shown, and what was not
#
# **Shown.** The tram needs 9 steps where the coach needs 11 (by hand and run). 512 tokens of a prompt
# ride for free on 60 answers (cost model). In one simulation the tram made twice the coach's tokens a
# second, and pages as needed 1.7 times the tram's. Absorbed scores equal expanded ones (run). 128
# heads on one row bring 242 FLOP/byte (formula). One scale for all ruins int8 where heads differ
# (run, on random numbers).
#
# **Not shown.** Any of it on a GPU: the clock was the roofline. What real streams of requests look
# like: other lengths give other factors. Whether answers stay good with an fp8 cache or with 2048
# chosen tokens: that is measured on models. FlashMLA's numbers are its authors'.

# %% questions [markdown]
# ## Questions
#
# Decide before you open.

# %% quiz-arrivals
Quiz(
    "With 4096 rows and a request every 20 ms, the tram is as fast as pages and chunks. Why?",
    options=[
        ("Both fill the pool.", False, "Look at the third lane: it stays below the dotted line."),
        (
            "Whoever comes is served at once: the arrivals set the pace.",
            True,
            "Memory was no wall.",
        ),
        ("The GPU can do no more.", False, "Let requests come faster, and see."),
    ],
)

# %% quiz-chunk
Quiz(
    "The first token of a long prompt should come sooner, so you raise the budget of a step from "
    "512 to 8192 tokens. Who pays?",
    options=[
        ("Nobody: the same FLOPs are computed.", False, "The same, but all in one step."),
        ("Whoever is decoding: the next token waits for it.", True, "133 ms, not 9."),
        ("The prompt itself.", False, "It is ready a little sooner: it reads its rows less often."),
    ],
)

# %% quiz-mla
Quiz(
    "A model with 16 heads on latent rows (576 numbers, 512 of them values), bf16. How many FLOPs "
    "a byte does its absorbed decode have, about?",
    answer=30,
    explanation="16 · 2 · (576 + 512) / 1152 = 30.2: it waits for memory. 128 heads make the "
    "difference, not the latent row.",
)

# %% quiz-int8
Quiz(
    "“An int8 cache halves the bytes of K and V, so it is free speed.” What is missing?",
    options=[
        ("Nothing.", False, "Three things are."),
        (
            "The error, the bytes of the scales, and the work of converting.",
            True,
            "Measure the error on your model, not on random numbers.",
        ),
        ("It must be trained for.", False, "12.2 rounds a cache that is there."),
    ],
)

# %% exercises [markdown]
# ## Your turn
#
# Open `exercises/12_serving.ipynb`. 12.1 is latent attention, absorbed; 12.2 a cache in int8; 12.3
# the scheduler, judged on requests that you have not seen; 12.4 the choice of a kernel.

# %% next [markdown]
# ## What comes next
#
# One GPU is full. What should several of them send each other: the papers, K and V, or the sticky
# notes, o and lse? The course ends here for now.
#
# **To read:**
# - Yu and others: *Orca* (OSDI 2022): the tram.
# - Agrawal and others: *Sarathi-Serve* (OSDI 2024),
#   [arXiv:2403.02310](https://arxiv.org/abs/2403.02310): chunks, and whom they help.
# - DeepSeek-AI: *DeepSeek-V2* (2024), [arXiv:2405.04434](https://arxiv.org/abs/2405.04434), section
#   2.1: latent attention in two pages.
