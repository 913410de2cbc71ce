# %% title [markdown]
# # 10 · Decode: how many queries share a loaded byte?
#
# **You need:** lesson 02 (intensity and the roofline), lesson 03 (piles, notes, merge), lesson 07
# (the kernel, and what `lse` is). No GPU.
# (macOS and Windows: kernels are interpreted, and compiled when graded.)
#
# **You will be able to:** say from two numbers whether an attention step waits for memory or for
# arithmetic; say what batching, grouped heads, drafts and shared prefixes change about it; pack a
# group's heads so that they share a load; add a token to a cache and read it by tiles; split the
# keys of one query among programs and merge what they return; name the mistake behind a wrong
# merge.
#
# **Time:** 65 minutes for this lesson, 100 for its exercises, and 20 more for 10★.

# %% question [markdown]
# ## The question
#
# You send a model a text, and it answers. It works in two phases.
#
# - **Prefill.** Your whole text, the *prompt*, goes through the model at once: N tokens, N
#   queries.
# - **Decode.** Then it writes. One new token, one query, looks at everything before it. The next
#   token comes out, and is the next query. And so on, token after token.
#
# The keys and values of earlier tokens do not change. So they are kept: that is the **KV cache**.
# Each decode step reads all of it, for one query.
#
# What one user sends is a **request**: a text, and a cache of its own.
#
# Both phases compute the same function, the one that you know. But the kernel of lesson 07, so
# good at prefill, is poor at decode. One number says why:
#
# **How many queries share a loaded byte?**

# %% imports
import numpy as np
import torch

from course_lib import Predict, Quiz, count
from course_lib.accounting import decode_traffic as model
from course_lib.accounting.hardware import GPUS
from course_lib.attention import OnlineState, naive
from course_lib.figures import decode as measured
from course_lib.kernels.flash_forward import flash_attention_with_lse
from course_lib.style.table import Table
from course_lib.widgets import KVCacheCalculator, Race, RooflineChart, TileSchedule

# %% picture [markdown]
# ## The picture: readers at a desk
#
# The warehouse of lesson 01 (HBM), the road, and at its end the desk where the chip works. In the
# warehouse stand shelves of books. A **book** is a key with its value; a **reader** is a query.
# Every reader has to read every book of his text. A book is brought over the road to the desk,
# read there, and taken away.
#
# - A whole class sits at the desk and reads *the same* book. It came over the road once, and keeps
#   everybody busy. Meanwhile the next one is on its way. That is prefill.
# - One reader sits there. The book comes, he glances at it, it goes. He waits for the road nearly
#   all day. That is decode.
#
# Road, book and reader are the same in both. **Only the number of readers a book differs.**

# %% by-hand [markdown]
# ## A number by hand: one key
#
# Take one key and its value, d = 128 numbers each, 2 bytes a number. To load both: 2 · 128 · 2 =
# **512 bytes**.
#
# Now one query uses them. Its score: 128 multiplications and 128 additions. Adding the weighted
# value to O: 128 and 128 again. Together **512 FLOPs**. (The exponential we leave out, as
# always.)
#
# 512 FLOPs for 512 bytes: the **intensity** is 1 FLOP per byte. With another d both change alike,
# and with more keys, too. So neither matters. What does?

# %% predict-ridge
p_ridge = Predict(
    "10-ridge",
    "An H100 does 989 TFLOP in the time in which it reads 3.35 TB. How many queries must share "
    "each key, so that its arithmetic is no longer idle?",
    unit="queries",
)
p_ridge

# %% reveal-ridge
p_ridge.reveal(
    GPUS["H100"].ridge,
    "989 / 3.35: the ridge of lesson 02. With 2 bytes a number, each query that uses a loaded key "
    "brings 1 FLOP per byte. One query alone uses a third of a percent of the arithmetic.",
)

# %% dial-text [markdown]
# ## One dial: group × queries
#
# Who can share a key? Two kinds of readers:
#
# - other **queries** of the same request: many in prefill, one in decode;
# - other **heads**: with grouped-query attention (GQA, lesson 02) several query heads use one K/V
#   head. Their number is the **group**: 32 query heads on 8 K/V heads are groups of 4.
#
# So, at 2 bytes a number and with a long cache: **intensity ≈ group × queries**. The code is
# exact: it also counts the rows of Q and O, which move once.


# %% dial-code
def intensity(group, queries, n=8192, d=128, b=2):
    """FLOPs per byte of one K/V head: n keys, and the rows of Q that share them."""
    rows = group * queries  # of Q, and of O
    flops = 4 * rows * n * d  # q · k and p · v: 2 d each, a row and key
    moved = (2 * n * d + 2 * rows * d) * b  # K and V, Q and O, once each
    return flops / moved


for queries in (1, 4, 64, 8192):
    print(f"groups of 4, {queries:5} queries: {intensity(4, queries):8.1f} FLOP/byte")

# %% dial-see [markdown]
# The last line is far below 4 · 8192: there Q and O have four times as many rows as K and V, and
# are most of the bytes.
#
# Below is the roofline of lesson 02 with one more handle. *You are here* is a step with some
# number of queries. Drag it along the roof: from [decode](#fac-roofline-plot) at the left, one
# query, to prefill at the right. **Two regimes, one roofline.** At how many queries do you pass
# the ridge? Then change the K/V heads, and see both ends of the dial move.

# %% dial
RooflineChart(view="dial", n=8192, d=128, heads=32, kv_heads=8)

# %% dial-ridge folded=true
# @title After your look: at how many queries do groups of 4 pass the ridge?
over = next(q for q in range(1, 8192) if intensity(4, q) > GPUS["H100"].ridge)
print(
    f"at {over}: {4 * over} rows share a key, a few more than the ridge of {GPUS['H100'].ridge:.0f},"
)
print("for the rows of Q and O travel too")

# %% flash-heading [markdown]
# ## Is it still FlashAttention that helps?
#
# FlashAttention's win was: S and P, N × N, never go to memory. A decode step has one query. Its
# scores are one *row* of N numbers a head. What does it cost to write them down, as naive attention
# does?

# %% predict-naive
p_naive = Predict(
    "10-naive",
    "A decode step, groups of 4, d = 128, 2 bytes a number. Naive writes and reads the scores, "
    "writes and reads the weights: four trips of N numbers a head. How many bytes is that, in % of "
    "K and V?",
    unit="%",
)
p_naive

# %% naive-decode
trips = 4 * 4 * 2  # four trips, 4 heads of the group, 2 bytes: for one key
row = 2 * 128 * 2  # K and V of one key
print(f"for each key: {row} bytes of K and V, {trips} bytes of trips")

# %% reveal-naive
p_naive.reveal(
    100 * trips / row,
    "In prefill the trips were nearly everything, here they are next to nothing. There is no N² "
    "to save.",
)

# %% naive-say [markdown]
# (That is the least, by formula. Eager PyTorch moves more: it may repeat K and V for every head of
# the group.) So what made prefill fast cannot make decode fast. The online softmax stays useful: it
# lets different programs do parts of the keys, as you will see. But first what does help: the dial.
#
# Play the race of one head with one query row. Which tape is longer, and by how much?

# %% race
Race(4096, 128, decode=True)

# %% race-say [markdown]
# (Naive's, hardly: for each key it adds four trips of one number to the 2 · 128 numbers of K and V.)

# %% what-changes [markdown]
# ## What turns the dial?
#
# Four proposals to give a book more readers.
#
# **1. Batching.** A server decodes 64 requests together, each with a cache of its own.

# %% predict-batch
p_batch = Predict(
    "10-batch",
    "64 requests, each with its own cache, in one step. The intensity of attention becomes",
    options=["64 times as high", "about 8 times as high", "what it was"],
)
p_batch

# %% reveal-batch
for batch in (1, 64):
    found = model.decode_intensity(batch=batch, n=8192, d=128, heads=32, kv_heads=8)
    print(f"{batch:2} requests: {found:.2f} FLOP/byte")
p_batch.reveal(
    "what it was",
    "64 readers, but each wants other books. Nobody shares one: 64 times the FLOPs, and 64 times "
    "the bytes.",
)

# %% batch-say [markdown]
# You will read that batching raises the intensity of decode. That is true of the products with the
# model's *weights*: all requests use the same weights, so these are the shared book. Of attention it
# is false. Which of the two is more to read? For a model of 8 billion weights, and 64 requests of
# 8192 tokens:

# %% batch-bytes
parameters = 8.03e9  # Llama-3-8B: 32 layers, 8 K/V heads, d = 128
caches = 64 * model.cache_bytes(8192, d=128, kv_heads=8, layers=32)
print(f"weights   {2 * parameters / 2**30:3.0f} GiB, once for all requests")
print(f"64 caches {caches / 2**30:3.0f} GiB, each for one request")
one = measured.row(batch=1, n=65536, kv_heads=8)["median_us"]
many = measured.row(batch=16, n=16384, kv_heads=8)["median_us"]
print(f"attention, H100: 1 request of 65,536 keys {one:.0f} µs, 16 of 16,384 {many:.0f} µs")

# %% batch-time [markdown]
# The last line is measured. 16 · 16,384 keys are 4 times 65,536, and they take about 4 times as long,
# batch or no batch: time goes with the bytes.

# %% gqa-heading [markdown]
# **2. GQA.** The model has 8 K/V heads in place of 32. The 32 query heads stay.

# %% predict-gqa
p_gqa = Predict(
    "10-gqa",
    "32 query heads, and 8 K/V heads in place of 32. What does a decode step save?",
    options=[
        "FLOPs: 4 times fewer. The bytes stay",
        "bytes of K and V: 4 times fewer. The FLOPs stay",
        "both, 4 times",
    ],
)
p_gqa

# %% gqa-run
rows = []
for kv_heads in (32, 8, 1):
    flops = model.decode_flops(65536, 128, heads=32)
    least = model.decode_compulsory.bytes(n=65536, d=128, heads=32, kv_heads=kv_heads)
    rows.append((kv_heads, flops / 1e9, least / 1e6))
columns = ("K/V heads", "GFLOP", "the least MB")
Table(columns, rows, {"GFLOP": ".2f", "the least MB": ",.0f"}, note="One request, by formula.")

# %% reveal-gqa
mha, gqa = (measured.row(1, 65536, kv_heads)["median_us"] for kv_heads in (32, 8))
p_gqa.reveal(
    "bytes of K and V: 4 times fewer. The FLOPs stay",
    "Every query head still makes its own scores. Measured on an H100, 65,536 keys, d = 128, "
    f"bf16: {mha:.0f} µs with 32 K/V heads, {gqa:.0f} µs with 8, {mha / gqa:.1f} times faster at "
    "the same FLOPs. Decode was waiting for bytes.",
)

# %% drafts [markdown]
# **3. Drafts.** A small model guesses the next tokens, say 4. The large one looks at all guesses
# in *one* step and keeps those that it would have written itself (*speculative decoding*). Their 4
# queries read one cache: the dial goes up by 4 (by 5 with the newest token's own query). If guesses are wrong, their work is lost, but
# arithmetic was idle anyway.
#
# **4. Shared prefixes.** 64 requests begin with the same 4096 tokens, instructions for example,
# kept in the cache *once*. A kernel that knows it can let all 64 queries use a loaded key of that
# prefix. For these keys, and only for these, the dial goes up by 64. (A kernel that does not know
# it reads them 64 times: a key shared in memory is not yet shared in a load.)

# %% predict-prefix
p_prefix = Predict(
    "10-prefix",
    "64 requests of 8192 keys, groups of 4. The first 4096 keys are the same for all, kept once and "
    "loaded once. The intensity of the whole step, which was 4, becomes",
    options=["about 8", "about 130, half of 4 · 64", "4 · 64"],
)
p_prefix

# %% settings
shape = {"n": 8192, "d": 128, "heads": 32, "kv_heads": 8}
prefix = model.decode_intensity(batch=64, shared=4096, **shape)
dial = [
    ("every head its own K and V", intensity(1, 1)),
    ("groups of 4, one request or a batch", intensity(4, 1)),
    ("64 requests, the 4096 keys that they share", intensity(4, 64, n=4096)),
    ("64 requests, all keys: these 4096, and 4096 own", prefix),
    ("groups of 4, and 4 drafts", intensity(4, 4)),
    ("one K/V head for 32", intensity(32, 1)),
    ("128 heads on one latent row (MLA)", model.latent_intensity(128)),
    ("prefill, groups of 4", intensity(4, 8192)),
]
ridge = GPUS["H100"].ridge
rows = [(says, x, "memory" if x < ridge else "arithmetic") for says, x in dial]
columns = ("8192 keys, 2 bytes a number", "FLOP/byte", "an H100 waits for")
Table(columns, rows, {"FLOP/byte": ",.0f"}, note=f"By formula. The ridge is at {ridge:.0f}.")

# %% reveal-prefix
p_prefix.reveal(
    "about 8",
    "FLOPs as before, bytes about half: each request still reads its own 4096 keys. What is not shared "
    "limits the gain, as in Amdahl's law (lesson 02).",
)

# %% settings-say [markdown]
# (The third line says 241, and not 4 · 64 = 256: the rows of Q and O travel too.)
#
# The line *128 heads on one latent row* is **MLA**, DeepSeek's *multi-head latent attention*: a *low-rank* cache. A token
# keeps one row of 576 numbers, and all 128 heads use it: all of it for their scores, 512 numbers of
# it as their value. That is 128 heads · 2 · (576 + 512) FLOPs for 576 · 2 bytes. So "decode is
# memory-bound" is a rule with an exception: MLA stands just below the ridge. Its own kernel is called
# FlashMLA; lesson 12 has a page on it.

# %% pack-heading [markdown]
# ## A promise is not a load: pack the group
#
# `group × queries` promised that a group's heads share a loaded key. But if each query head has a
# program of its own, as in lesson 07, each program loads the keys that it needs. To share, the heads must sit
# at *one* desk: as **rows of one tile of Q**. The tile's row r is head r of the group. All of them
# see the same keys, so nothing else in the loop changes.
#
# A tensor core wants at least 16 rows (lesson 06), and a group often has 4 or 8. The rest are
# **idle rows**, filled with zeros and thrown away.

# %% predict-pack
p_pack = Predict(
    "10-pack",
    "8 query heads on 2 K/V heads, one query, 64 keys, the kernel of lesson 07. How many times as "
    "many bytes of K does it load with a program for each query head as with packed groups?",
    unit="times",
)
p_pack

# %% pack-count
q_one = torch.randn(1, 8, 1, 16)  # (B, H, 1, d): a program for each head
q_packed = q_one.reshape(1, 2, 4, 16)  # (B, H_kv, group, d): a program for each group
k_few = torch.randn(1, 2, 64, 16)  # (B, H_kv, n, d)
v_few = torch.randn(1, 2, 64, 16)
print(f"K is                  {k_few.nbytes:>6,} bytes")
loaded = {}
for name, rows_of_q in (("a program a head", q_one), ("packed groups", q_packed)):
    ledger = count(flash_attention_with_lse, rows_of_q, k_few, v_few, block_q=16)
    loaded[name] = ledger.read["k"]
    print(f"{name:16} loads {loaded[name]:>6,} bytes of K")
o_one, _ = flash_attention_with_lse(q_one, k_few, v_few, block_q=16)
o_packed, _ = flash_attention_with_lse(q_packed, k_few, v_few, block_q=16)
print("the same answers:", torch.allclose(o_one.flatten(), o_packed.flatten()))

# %% reveal-pack
p_pack.reveal(
    loaded["a program a head"] / loaded["packed groups"],
    "The size of the group. It is the same kernel: only the shape of q is another. Packed, every "
    "byte of K is loaded once, and the loads keep what the dial promised.",
)

# %% pack-say [markdown]
# That is *counted*, of what the programs ask for. On a GPU the L2 cache would serve some of the
# repeated loads (lesson 04).
#
# And the idle rows? 16 rows on one loaded key are 16 FLOPs a byte, most of them for nothing. The
# ridge is at 295. The arithmetic was idle anyway: here padding costs nothing that we wait for. (In
# prefill it would.)
#
# Drafts are packed the same way: 4 heads × 4 drafts fill 16 rows. Only then the rows differ in
# what they may see: draft 2 must not look at draft 3. That is a causal mask inside one tile.

# %% cache-heading [markdown]
# ## The cache: append a row, read by tiles
#
# Now the book itself. For each layer and K/V head the cache holds one row of K and one of V a token. The model has
# written 256 tokens, and the 257th comes. What happens in memory?

# %% predict-append
p_append = Predict(
    "10-append",
    "Token 257 arrives, the kernel's tiles have 128 rows. How many rows of K are written, and "
    "how many tiles does this step read?",
    options=["1 row, 1 tile", "1 row, 3 tiles", "128 rows, 3 tiles"],
)
p_append

# %% draw-cache
measured.draw_cache(257, 128)

# %% reveal-append
p_append.reveal(
    "1 row, 3 tiles",
    "Appending writes one row, at the place that is next. Reading goes over all rows, tile by "
    "tile; the third tile has one real row, and a mask hides the rest.",
)

# %% cache-say [markdown]
# Two different things, often confused: **a cache grows by rows; a kernel reads by tiles.** Nobody
# waits until a tile is full: the next token needs this one's key now. A tile is not a way to
# store, it is how much a program takes on its desk at a time. (A *page*, of which you may have read, is a way
# to store.)
#
# Here is a decode step, in ten lines. It is lesson 04's loop for one query. (`OnlineState` is lesson
# 03's sticky note (m, ℓ, O): `from_tile` makes it of a tile's scores and values, `merge` makes one
# of two, `identity` is the empty one, `finalize` divides.)


# %% decode-step
def decode_step(q, k_cache, v_cache, length, block=128):
    """One query over the first `length` rows. q: (d,), caches: (capacity, d)."""
    state = OnlineState.identity((), len(q))
    for start in range(0, length, block):
        rows = slice(start, min(start + block, length))  # the last tile may be short
        s = k_cache[rows] @ q / np.sqrt(len(q))  # (rows,): made, used, dropped
        state = state.merge(OnlineState.from_tile(s, v_cache[rows]))
    return state.finalize()  # o: (d,), lse: ()


# %% decode-step-run
rng = np.random.default_rng(10)
k_cache = np.full((384, 16), np.nan)  # room for 384 tokens, nothing in it yet
v_cache = np.full((384, 16), np.nan)
k_cache[:256] = rng.normal(size=(256, 16))
v_cache[:256] = rng.normal(size=(256, 16))
k_cache[256] = rng.normal(size=16)  # token 257: one row each
v_cache[256] = rng.normal(size=16)
q = rng.normal(size=16)
o, lse = decode_step(q, k_cache, v_cache, length=257)
at_once = naive(q[None], k_cache[:257], v_cache[:257])[0]
print("largest difference from naive attention:", np.abs(o - at_once).max())

# %% book [markdown]
# ## Book, shelf, scores
#
# FlashAttention throws the scores away and makes them again when they are needed (lesson 09).
# Then why keep K and V at all? Could they not be made again too, as scores are?
#
# - The **books** are K and V: what the earlier tokens said.
# - The **shelf**, in the warehouse (HBM), is where they stand.
# - The **scores** are what a reader mutters while he reads: forgotten at once. To have one again, he
#   reads that book once more.

# %% predict-recompute
p_recompute = Predict(
    "10-recompute",
    "Lose one score, and q · k brings it back: 256 FLOPs at d = 128. Lose instead the key of an "
    "earlier token in layer 20, and keep nothing but the text. To bring it back takes",
    options=[
        "256 FLOPs too",
        "one product of the token's row with the weights of K",
        "the layers before it, over all tokens up to it",
    ],
)
p_recompute

# %% recompute-run
n = 8192
cache = model.cache_bytes(n, d=128, kv_heads=8, layers=32)
read = cache / (GPUS["H100"].hbm_gb_per_s * 1e9)
again = 2 * parameters * n / (GPUS["H100"].tflops_half * 1e12)  # 2 FLOPs a weight and token
print(f"read the cache of {n} tokens        {1e3 * read:8.2f} ms")
print(f"compute it again, for every token  {1e3 * again:8.2f} ms at the full speed of the chip")
print(f"{again / read:.0f} times as long")

# %% reveal-recompute
p_recompute.reveal(
    "the layers before it, over all tokens up to it",
    "A key of layer 20 is a product with what layer 19 gave out, and that came from attention "
    "over all earlier tokens in layer 19, and so on down. A score is made of what lies on the "
    "desk; a key is made by the model.",
)

# %% book-say [markdown]
# (By formula, with nominal figures; attention's own FLOPs are left out, and they would only add
# to it.) If the token's *row* of layer 19 were kept, one product would do. But that row is 4096
# numbers in such a model, and K and V together are 2 · 8 · 128 = 2048.
#
# So: scores may go, **the book must stay on the shelf**. FlashAttention reads the book well. It
# does not make it thinner. How thick is it? By hand, for one token: K and V, 32 layers, 8 heads, 128
# numbers, 2 bytes: 2 · 32 · 8 · 128 · 2 = **128 KiB**. 8192 tokens make 1 GiB.
#
# Below, one GPU is a box: a slab of weights, and a brick for each request that still fits, its K
# above its V. Drag the first brick longer: that is N. How many requests of 8192 tokens fit, and
# how many of 131072? [These lines](#fac-kv-variants) compare what would shrink a brick. Choose
# another model, and see what its number of K/V heads does.

# %% cache-widget
KVCacheCalculator("Llama-3-8B")

# %% split-heading [markdown]
# ## Who does the work? Piles dealt to markers
#
# The kernel of lesson 07 starts a program for each tile of *queries* and each head. Decode has
# one query. One request, 8 K/V heads, each with its packed group: that makes **8 programs**. An
# H100 has 132 SMs. (After your guess, the picture cuts the keys into more and more parts,
# *splits*, each with a program of its own.)

# %% predict-splits
p_one = Predict(
    "10-one-split",
    "One request, 65,536 keys, 8 programs on an H100. At what share of a copy's speed do they read "
    "K and V? (measured)",
    unit="%",
)
p_one

# %% draw-splits
# @title A picture: the speed of one request, over the splits of its keys
measured.draw_splits(batch=1, n=65536, kv_heads=8)

# %% reveal-splits
p_one.reveal(
    100 * measured.row(1, 65536, 8, "flash_decode 1")["of_copy"],
    "8 SMs cannot ask for bytes fast enough to keep the memory busy. 16 splits make 128 programs, "
    "nearly one an SM. (That is our reading: the share was measured, its cause was not.)",
)

# %% split-say [markdown]
# So the *keys* must be split. Lesson 03's exam papers again: the stack is tall, but now there are
# many **markers**, and the piles are dealt out to them. Each marker walks through his own piles
# with the three sticky notes, as you did, and hands in two things: his average o, already
# divided, and his `lse`. Then somebody merges. This is *split-K*, known as *Flash-Decoding*. (Which
# piles go to whom does not matter for the answer: lesson 03's merge knows no order.)
#
# Watch it: one request, 4 query heads as the rows of one tile of Q, the 257 keys of our picture
# in tiles of 16, dealt to [4 programs](#fac-schedule-grid) that run side by side. Step through.
# Who has the least to do, and why?

# %% split-widget
TileSchedule(n_q=4, block_q=4, n_k=257, block_k=16, schedule="split_k", splits=4, at_once=4)

# %% parts-say [markdown]
# The last one: 17 tiles, 5 for each program, and 2 are left for him. And what does the splitting
# cost? Each program writes its part, o and `lse` in 4 bytes a number, and the merge reads it:

# %% parts-cost
parts = model.split_parts.bytes(n=65536, d=128, heads=32, kv_heads=8, splits=16)
least = model.decode_compulsory.bytes(n=65536, d=128, heads=32, kv_heads=8)
print(f"the parts of 16 splits {parts / 1e6:6.2f} MB, written and read")
print(f"K and V                {least / 1e6:6.0f} MB")

# %% merge-by-hand [markdown]
# ### The merge by hand
#
# `lse` is the logarithm of the sum of all exponentials of a part. So exp(lse) says how much the
# part counts. Add these up for the whole, and give each part its share:
#
# whole = exp(lse_A) + exp(lse_B), weight of A = exp(lse_A) ÷ whole = **exp(lse_A − lse)**, with
# lse = ln(whole).
#
# In your head: marker A hands in (o, lse) = (10, ln 2), marker B (50, ln 6). They count 2 and 6.

# %% predict-merge
p_merge = Predict("10-merge", "(o, lse) = (10, ln 2) and (50, ln 6). What is the merged o?")
p_merge


# %% merge-code
def merge(o, lse):
    """Merge the parts of one row: their averages o (parts,) and their lse (parts,)."""
    whole = np.log(np.exp(lse).sum())  # (a kernel subtracts the largest lse first)
    weight = np.exp(lse - whole)  # (parts,), they add up to 1
    return weight @ o, whole


merged, its_lse = merge(np.array([10.0, 50.0]), np.log([2.0, 6.0]))
print(f"o = {merged:.4f}   lse = {its_lse:.4f}, and ln 8 = {np.log(8):.4f}")

# %% reveal-merge
p_merge.reveal(merged, "2/8 of 10 and 6/8 of 50, and lse is ln 8.")

# %% merge-row-say [markdown]
# Now lesson 03's row: scores 1, 3 | 2, 5, values 10, 20 | 30, 40. Marker A has the first pile, B
# the second. Together they must find 36.881.

# %% merge-row
scores, values = np.array([1.0, 3, 2, 5]), np.array([[10.0], [20], [30], [40]])
o_a, lse_a = OnlineState.from_tile(scores[:2], values[:2]).finalize()
o_b, lse_b = OnlineState.from_tile(scores[2:], values[2:]).finalize()
o = np.array([o_a[0], o_b[0]])  # (2,)
lse = np.array([lse_a, lse_b])  # (2,)
print(f"A: o = {o[0]:.4f}   lse = {lse[0]:.5f}")
print(f"B: o = {o[1]:.4f}   lse = {lse[1]:.5f}")
print("merged: o = {:.4f}   lse = {:.5f}".format(*merge(o, lse)))

# %% museum [markdown]
# ### Wrong numbers that tell you their mistake
#
# Four people merged the same two parts, and each got one thing wrong. The right answer is 36.88.
# Read only the names: who comes closest?

# %% wrong-merges
l_sum = np.exp(lse - np.array([3.0, 5.0]))  # (2,) each against its own maximum
weights = {
    "right: exp(lse)": np.exp(lse),
    "averaged": np.ones(2),
    "weighted by lse": lse,
    "weighted by ℓ": l_sum,
    "weighted by 2^lse": 2**lse,
}
rows = [(says, w[0] / w.sum(), w @ o / w.sum()) for says, w in weights.items()]
Table(("merge", "weight of A", "merged o"), rows, {"weight of A": ".3f", "merged o": ".2f"})

# %% museum-say [markdown]
# All four lie between 18.81 and 39.53, so none is impossible: look at the weights, not at the
# range. And all four lie below 36.88: B counts nearly 7 times as much as A, and whoever weighs too
# evenly gives A too much.
#
# - *Averaged*: each part has the same say, however much it saw.
# - *By lse*: a logarithm is no weight, and it may be negative.
# - *By ℓ*: 28.76, lesson 03's number. ℓ is measured against each part's *own* maximum, and the two
#   differ. `lse` = m + ln ℓ has the maximum in it. That is why parts hand in `lse`, and not ℓ.
# - *By 2^lse*: a kernel may compute with powers of 2 inside (lesson 08). Then its parts' `lse` is
#   a logarithm to the base 2, and so must be the merge. Mixed bases give 35.20, the wrong number
#   that is easiest to overlook.
#
# **And a marker without a pile?** A short request may have fewer tiles than there are programs.
# An empty part is (0, −inf): it counts exp(−inf) = 0, and nothing changes. Unless *all* are
# empty: then the largest lse is −inf, and −inf − (−inf) is NaN (lesson 03). 10.6 asks you for
# that.

# %% predict-many
p_many = Predict(
    "10-many",
    "Now 64 requests of 4096 keys, 8 K/V heads each. How much faster than one split is the best "
    "number of splits? (H100)",
    options=["about 10 times, as before", "about 2 times", "hardly"],
)
p_many

# %% draw-many
# @title A picture: 64 requests, over the splits of each request's keys
measured.draw_splits(batch=64, n=4096, kv_heads=8)

# %% reveal-many
p_many.reveal(
    "hardly",
    "64 · 8 = 512 programs, more than there are SMs, before anything is split. And every split "
    "adds a part to write and to merge.",
)

# %% ragged-heading [markdown]
# ## Ragged batches: `lengths`
#
# Requests are not equally long. Four caches of 5, 257, 64 and 1000 tokens stand in one tensor
# with room for 1000 each. One launch shall do them all. What if its kernel knows no lengths, reads
# the padding too, and masks it?

# %% ragged-run
lengths = np.array([5, 257, 64, 1000])  # (4,) tokens of each request
room = 4 * lengths.max()
starts = np.concatenate([[0], lengths.cumsum()])  # (5,)
print(f"rows {room}, of them real {lengths.sum()}: {1 - lengths.sum() / room:.0%} are padding")
print("tiles of 128, a request:", -(-lengths // 128))
print("laid end to end instead, request i begins at", starts.tolist())

# %% ragged-say [markdown]
# Two thirds of the road for nothing, and the road is what we wait for. So the kernel takes one more
# tensor, `lengths`, one number a request, and each program loads its own: the loop ends where the
# request ends, and the last tile is masked. The *grid* is the same for all; a program of a short
# request may get no tile at all (an empty part).
#
# You will meet two other names. If requests are laid end to end in one tensor, without padding, a
# kernel is told where each begins: the last line above. FlashAttention's library calls that
# **cu_seqlens** (cumulative sequence lengths), PyTorch *cu_seq_q* and *cu_seq_k*, in
# *varlen_attn* (PyTorch 2.13's also takes a number of splits). FlashInfer, a library of serving kernels, plans such a batch on the host first, so
# that long requests get more programs, and then launches once.

# %% align-heading [markdown]
# ## The triangle at the wrong corner
#
# A decoder is causal. So one writes `is_causal=True`, in decode as in training. Let us see what
# the one query sees. With V the identity matrix, O *is* the row of weights.

# %% predict-causal
p_causal = Predict(
    "10-causal",
    "One query, 6 keys, PyTorch's SDPA with is_causal=True. How many keys have a weight?",
)
p_causal

# %% causal-run
torch.manual_seed(10)
q_last, k_six = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 6, 8)
identity = torch.eye(6)[None, None]  # (1, 1, 6, 6)
sdpa = torch.nn.functional.scaled_dot_product_attention
at_the_end = torch.ones(1, 6, dtype=torch.bool).tril(6 - 1)  # row i sees keys up to i + 6 - 1
ways = {
    "is_causal=True": {"is_causal": True},
    "no mask": {},
    "aligned at the end": {"attn_mask": at_the_end},
}
for name, how in ways.items():
    weights = sdpa(q_last, k_six, identity, **how)[0, 0, 0]  # (6,)
    print(f"{name:20}", weights.numpy().round(2))

# %% reveal-causal
p_causal.reveal(
    1,
    "The first key, the oldest. PyTorch aligns the triangle at the top left: query 0 is taken "
    "for token 0. Nothing complains, and the shapes are right.",
)

# %% causal-say [markdown]
# The course's masks, and the kernels of the FlashAttention library, align at the *end*: the last
# query is the last token (lesson 07). With one query no mask is needed at all: everything in the
# cache lies before it. With several (drafts, or a prompt that continues a cache) align at the end:
# `tril(n_k - n_q)` as above, or PyTorch's `causal_lower_right(n_q, n_k)` of
# `torch.nn.attention.bias`.

# %% table-heading [markdown]
# ## The table: complete it
#
# | phase | shape of Q | who works side by side | a kernel for it |
# |---|---|---|---|
# | prefill | many rows a request | programs over tiles of *queries*, heads, requests | FlashAttention |
# | decode | one row a head, packed: group rows | **?** | Flash-Decoding |
# | drafts | group × drafts rows | as decode | as decode, causal among the drafts, aligned at the end |
# | mixed batch | some requests many rows, some one | tiles of queries, a request | *varlen* kernels, which are told the starts of queries and of keys |
# | latent attention | 128 rows on one key row | splits of the keys | FlashMLA |
#
# A **mixed batch** is what a busy server has: while 60 requests decode, the prompt of another
# comes in. Its prefill is cut into pieces (*chunked prefill*), and each step takes some rows of
# it along. What goes into the next step, a *scheduler* decides, and with that it chooses the
# kernel.

# %% predict-table-a
p_table_a = Predict(
    "10-table-a",
    "What do the programs of a decode step divide among themselves?",
    options=[
        "tiles of queries, heads, requests",
        "splits of the keys, K/V heads, requests",
        "the numbers of the head dimension",
    ],
)
p_table_a

# %% reveal-table
p_table_a.reveal(
    "splits of the keys, K/V heads, requests",
    "There is no tile of queries to divide: the group's rows are one tile.",
)

# %% graph-heading [markdown]
# ## A step that is recorded: CUDA graphs
#
# A decode step of a whole model is many small kernels, several for each layer. Their launches may
# take longer than the kernels: lesson 02's third regime. A **CUDA graph** records the launches of one step, and
# starts them all with one order. But it repeats *exactly* what was recorded: the same kernels,
# the same grids, the same addresses. What must hold, so that step 258 can be the recording of
# step 257?
#
# | changes from step to step | so it must be |
# |---|---|
# | the length | a *tensor* on the GPU that kernels load (`lengths`), not a Python number |
# | the place for the new row | an index from that tensor; the cache is *static*: allocated once, at full size |
# | how many tiles there are | decided in the kernel's loop; the grid and the number of splits stay fixed |
# | how many requests | rounded up to a few recorded sizes (1, 2, 4, 8, …), the rest empty requests |
#
# Prefill has another shape for each prompt, so it is seldom recorded. Decode always has one query
# a request: always the same shape. This is also why empty parts and empty
# requests must be right: a recorded step is full of them.

# %% others [markdown]
# ## Is it fast?
#
# The course's own decode kernel (packed, split, ragged) beside PyTorch's
# FlashAttention-2 and cuDNN backends, and FlashAttention-4 (FA4), a newer library.

# %% others-table
measured.against_others()

# %% others-say [markdown]
# A share of 100 % means: K and V go by as fast as a large copy reads and writes. (A few lines lie
# above it. The copy is a yardstick, not a limit.) FA4 splits no keys unless it is told to: look at
# its two rows with one request. Elsewhere there is not much left to gain by a cleverer
# kernel. **What is left to gain is fewer bytes, or more readers a byte**: the dial.

# %% shown [markdown]
# ## What was shown, and what was not
#
# **Shown.** Attention's intensity is group × queries, about, whatever the length, at 2 bytes a
# number. Batching own caches leaves it as it is; grouped heads, drafts and shared prefixes raise
# it (formula). Heads that are packed load each byte of K once (counted). One request
# needs its keys split (10 times faster, measured on an H100), and parts merge by exp(lse) into
# the exact answer, as in lesson 03. `is_causal=True` with one query sees one key (run).
#
# **Not shown.** That a *model* decodes faster by as much: its weights are read in each step too.
# That the cache gets smaller: nothing here does that but fewer K/V heads, or MLA's one row. What a
# shared prefix or drafts save in practice: no clock ran. CUDA graphs were described, not run.

# %% optional [markdown]
# ## Optional: four names that you may meet
#
# Skip this on a first reading.
#
# **The wave.** Three programs of the course's split kernel fit on an SM: 396 run at a time on an
# H100. 512 programs are one full *wave* and a third of one, and while that third runs, most places
# are empty (116 programs for 396): such numbers of splits reached 90 to 94 % of the best speed there
# (`benchmarks/NOTES.md`). More splits are not always better.
#
# **Lean attention, stream-K.** The remedy in general: lay the tiles of *all* requests and heads
# end to end, and cut that line into as many equal pieces as there are places. A program may end
# one request and begin the next. Nobody is idle, and ragged batches are balanced by themselves.
# The price: cuts anywhere, so more parts to merge.
#
# **A tree of drafts.** One may guess not a line of tokens but a tree: two candidates for the next
# word, three for the one after. All its nodes are queries of one step. The mask is then no
# triangle: a node sees the cache and its own *ancestors*. A rule, not a shape: 10★ asks for it.
#
# **Cascade.** For a shared prefix: one kernel lets the queries of all requests use the prefix
# (the dial at 64), another lets each read its own rest, and the two parts are merged by their
# `lse`. Lesson 03's merge for the third time.

# %% questions [markdown]
# ## Questions
#
# Decide before you open.

# %% quiz-batch
Quiz(
    "Two servers decode 64 requests of 8192 tokens. On A each has its own text. On B all begin "
    "with the same 8000 tokens, kept once, and the kernel knows it. Where does a loaded key "
    "serve more queries?",
    options=[
        ("On both alike: 64 requests are 64 queries.", False, "On A they read 64 caches."),
        ("On A.", False, "There no key is shared between requests."),
        ("On B.", True, "64 queries for each prefix key; a request has only 192 keys of its own."),
    ],
)

# %% quiz-dial
Quiz(
    "64 query heads on 8 K/V heads, 4 drafts at a time, 2 bytes a number, a long cache. How many "
    "FLOPs a byte, about?",
    answer=32,
    explanation="Groups of 8, times 4 queries. An H100 has its ridge at 295: it waits for memory.",
)

# %% quiz-merge
Quiz(
    "Three parts: (o, lse) = (6, 0), (12, 0) and (0, −inf). What is the merged o?",
    answer=9,
    explanation="The first two count 1 each, the empty one exp(−inf) = 0: (6 + 12) / 2.",
)

# %% quiz-keep
Quiz(
    "To save memory somebody deletes K, keeps V, and 'recomputes K when needed, as "
    "FlashAttention does with the scores'. What is wrong?",
    options=[
        (
            "Nothing, it is slower but exact.",
            False,
            "Exact yes, but it is the model that must run.",
        ),
        (
            "A score needs q and k, which are there. A key needs all layers below, over the "
            "whole text.",
            True,
            "Scores can be made again from the book. The book cannot be made from the scores.",
        ),
        (
            "K cannot be recomputed at all.",
            False,
            "From the text and the model it can, at its price.",
        ),
    ],
)

# %% quiz-mask
Quiz(
    "5 new queries continue a cache; together there are 105 keys. With SDPA's is_causal=True, "
    "how many keys does the last of them see?",
    answer=5,
    explanation="Aligned at the top left, query 4 sees keys 0 to 4. It should see all 105.",
)

# %% exercises [markdown]
# ## Your turn
#
# Open `exercises/10_decode.ipynb`. 10.1 is the dial, 10.2 the cache and its trap, 10.3 splits and
# merges in PyTorch. Then kernels: 10.4 packs the heads, 10.5 splits the keys, 10.6 merges, 10.7
# takes a ragged batch. 10★ is the tree of drafts.

# %% next [markdown]
# ## What comes next
#
# A static cache reserves room for the longest text that could come. Servers cut it
# into pages instead: where a key lies is then not how it is used. That is lesson 11.
#
# **To read:**
# - Dao, Haziza, Massa, Sizov: *Flash-Decoding for long-context inference* (2023), [the
#   post](https://crfm.stanford.edu/2023/10/12/flashdecoding.html): split-K, with a picture.
# - Ainslie and others: *GQA* (2023), [arXiv:2305.13245](https://arxiv.org/abs/2305.13245): why
#   few K/V heads are enough.
# - Ye and others: *FlashInfer* (2025), [arXiv:2501.01005](https://arxiv.org/abs/2501.01005),
#   section 3: ragged batches, cascades, one launch.
