# %% title [markdown]
# # 04 · Tiles
#
# **You need:** lesson 01 (the score matrix), lesson 02 (HBM, bytes, bounds) and
# lesson 03 (`m`, ℓ, `O` and the factor alpha). No GPU, no Triton.
#
# **After it you can:** cut attention into tiles; say what must fit on the chip;
# count who loads what, and how often; tell which tiles a causal mask skips;
# and read a program that has the shape of a GPU kernel.
#
# **Time:** 60 minutes here, 82 for the exercises and 35 for the starred one;
# 14 more for what is optional, at the end.

# %% imports
import numpy as np

from course_lib import Predict, Quiz
from course_lib.attention import OnlineState, masks, naive, softmax_rows
from course_lib.accounting.measurements import load_measurements
from course_lib.accounting.memory import FlatMemory
from course_lib.accounting.sram import largest_square_tile, tile_bytes
from course_lib.accounting.traffic import attention_flops, derived_counts
from course_lib.accounting.traffic import flash_compulsory, flash_tile_loads, naive_four_trips
from course_lib.style.table import Table
from course_lib.widgets import HBMAccountant, Race, SramBudget, TileSchedule

# %% question [markdown]
# ## The question
#
# Lesson 03 read the keys of **one** query pile by pile, and kept three small
# things: `m`, ℓ and `O`. A real call has thousands of queries. Each needs all
# keys. The full table of scores has `N × N` entries, and we never want to write
# it down.
#
# 1. In which order do we visit the table, if only a small piece of it may
#    exist at any time?
# 2. What does it cost? Something must be read more than once. What, how often,
#    and from where?
#
# ## The picture: one worker, one desk
#
# The workshop of lesson 02: small desks on the chip, and far away the warehouse, HBM. (A desk
# is an SM's registers and shared memory.)
#
# A worker, in code a **program**, fetches a few queries and keeps them on the desk. These are
# some rows of Q: a **Q tile**. Then keys and values come by, a few rows at a time: some rows
# of K and the same rows of V, a **K/V tile**. The worker uses it, updates three notes
# per query (`m`, ℓ, `O`), and lets it go. After the last one there is one answer
# per query. Only now something is written: a tile of the output.
#
# Nobody ever sees all scores. But every new Q tile needs all K/V tiles again.

# %% by-hand-order [markdown]
# ## By hand: 8 tokens in tiles of 2
#
# `N = 8`, two rows per tile. The table has 4 × 4 tiles. The number in each
# tile is the step in which it exists:
#
# | | keys 0-1 | keys 2-3 | keys 4-5 | keys 6-7 | after the row |
# |---|---|---|---|---|---|
# | **queries 0-1** | 1 | 2 | 3 | 4 | write output rows 0-1 |
# | **queries 2-3** | 5 | 6 | 7 | 8 | write output rows 2-3 |
# | **queries 4-5** | 9 | 10 | 11 | 12 | write output rows 4-5 |
# | **queries 6-7** | 13 | 14 | 15 | 16 | write output rows 6-7 |
#
# The outer loop walks over Q tiles, the inner loop over K/V tiles. Count: 4 loads
# of a Q tile, 16 of a K tile, 16 of a V tile, 4 writes of an output tile. Q and O
# cross once. K and V cross 4 times, once for each Q tile.
#
# The number of Q tiles is called `T_q`. It is `N / block_q`, rounded up: `block_q` is the
# number of rows of a Q tile, `block_k` that of a K/V tile.
#
# Now you. Before you press *Next*, say which tile comes. Each tile of Q, K and V
# counts how often it was read, and the desk shows how many scores exist at one time. Then
# choose [naive](#fac-schedule-kind): each of its three kernels (in eager the division is a
# fourth) walks over the whole table, so all scores are written to HBM and read again. (Its
# products are tiled as well and load Q, K and V again; the model of four trips counts them
# once.)

# %% schedule-widget
TileSchedule(n_q=8, n_k=8, block_q=2, block_k=2)

# %% code-text [markdown]
# ## The code
#
# One Q tile against all keys, with the state of lesson 03. `from_tile` makes
# `(m, ℓ, O)` of one K/V tile for every row at once, `merge` puts two states
# together, `finalize` divides by ℓ.


# %% one-q-tile
def one_q_tile(q_tile, k, v, block_k):
    """q_tile: (block_q, d); k, v: (n_k, d) -> (block_q, d)."""
    state = OnlineState.identity((len(q_tile),), v.shape[1])
    for start in range(0, len(k), block_k):
        cols = slice(start, start + block_k)
        s = q_tile @ k[cols].T / np.sqrt(q_tile.shape[1])  # (block_q, block_k)
        state = state.merge(OnlineState.from_tile(s, v[cols]))
    return state.finalize()[0]  # o, without lse


rng = np.random.default_rng(4)
q, k, v = rng.standard_normal((3, 50, 8))  # n = 50, d = 8
for block_k in (16, 7, 50):
    o_tile = one_q_tile(q[16:32], k, v, block_k)  # (16, 8)
    error = np.abs(o_tile - naive(q, k, v)[16:32]).max()
    print(f"K/V tiles of {block_k:2}: largest difference to naive {error:.1e}")

# %% code-shapes [markdown]
# What lies on the desk, with shapes:
#
# ```text
# q_tile  (block_q, d)         stays for the whole inner loop
# k_tile  (block_k, d)         one at a time
# v_tile  (block_k, d)         one at a time
# s, p    (block_q, block_k)   scores of this tile; weights, not divided yet
# m, ℓ    (block_q,)           one number per query
# O       (block_q, d)         one row per query, not divided yet
# ```
#
# A tile has no answer of its own. Its sum of weights is only a part of the
# row's sum. That is why nothing is written per tile: `O` stays on the desk and
# is rescaled by alpha each time.
#
# In algebra the tile sizes change nothing. In floating point the additions come in another
# order, so the last digits differ. Tile sizes are a question of cost, not of meaning.

# %% ragged-text [markdown]
# ## The ragged last tile
#
# The length is seldom a multiple of the tile. A chat has written 256 tokens, and
# now comes token 257. With tiles of 128 rows:
#
# ```text
# rows      0 ........ 127 | 128 ...... 255 | 256
# tile          0          |       1        |  2: one row, 127 places empty
# ```
#
# A GPU program has tiles of one fixed size, so the third tile has 128 places
# and 127 of them hold no token. Two rules:
#
# - Empty places must not be **touched**: their addresses belong to somebody
#   else. A mask on the load and on the store takes care of that.
# - Empty keys must have no **weight**. If they are filled with zeros, their
#   score is 0, and exp(0 - m) is not 0. Their score must be -inf.
#
# What happens if one forgets the second rule?

# %% ragged-zeros
q, k, v = np.random.default_rng(6).standard_normal((3, 257, 16))
padding = np.zeros((127, 16))
k_padded, v_padded = np.vstack([k, padding]), np.vstack([v, padding])
right, wrong = naive(q, k, v), naive(q, k_padded, v_padded)
print(f"row 0, right: {right[0, :3].round(4)}")
print(f"row 0, wrong: {wrong[0, :3].round(4)}, pulled towards 0")
s = q @ k_padded.T / 4  # sqrt(16) = 4; (257, 384)
weights = softmax_rows(s)
taken = weights[:, 257:].sum(axis=1).mean()
print(f"weight that the empty places took: {taken:.0%}")

# %% causal-text [markdown]
# ## Causal: skip, partial, full
#
# A model writes a text word by word: when it writes a word, the later ones do not
# exist yet. So it is trained not to look at them. That is the **causal mask**: no
# query looks at a later key.
#
# For a tile there are three cases:
#
# - **full**: every pair is allowed. Compute; no mask needed.
# - **partial**: the diagonal cuts through. Compute, then mask: the scores of
#   forbidden pairs become -inf.
# - **skip**: no pair is allowed. Do not compute it, and do not even *load* K
#   and V for it.

# %% predict-causal
p_causal = Predict(
    "4-causal-tiles",
    "A causal table of 4 x 4 tiles, 16 in all. How many must be visited?",
    unit="tiles",
)
p_causal


# %% causal-picture
TileSchedule(n_q=16, n_k=16, block_q=4, block_k=4, mask="causal")

# %% reveal-causal
counts = derived_counts(16, 16, 4, 4, causal=True)
p_causal.reveal(
    counts["visited_tiles"],
    f"{counts['partial_tiles']} on the diagonal, partial, and {counts['full_tiles']} below it, "
    f"full. The other {counts['skipped_tiles']} are skipped.",
)

# %% causal-half [markdown]
# With `T × T` tiles the visited share is `(T + 1) / (2 T)`: the diagonal tiles
# are computed in full, and what is hidden in them is thrown away. "Causal halves the work" is
# the limit for many tiles; for one tile it saves nothing.

# %% rule-text [markdown]
# ### Two rules, one of them reversed
#
# Which tiles may be skipped? Two rules:
#
# - Rule A: skip if `min(query) > max(key)`.
# - Rule B: skip if `max(query) < min(key)`.
#
# `min(query)` is the smallest query index in the tile, and so on. Try a tile.

# %% predict-rule
p_rule = Predict(
    "4-skip-rule",
    "Which rule finds the tiles without any allowed pair?",
    options=["A: min(query) > max(key)", "B: max(query) < min(key)"],
)
p_rule

# %% rule folded=true
# @title A table: both rules over 4 x 4 tiles of 4 tokens
rules = {
    "A": lambda q_min, q_max, k_min, k_max: q_min > k_max,
    "B": lambda q_min, q_max, k_min, k_max: q_max < k_min,
}
allowed = masks.causal().dense(16, 16)
for name, skip in rules.items():
    lost = 0
    print(f"rule {name}:")
    for i in range(0, 16, 4):
        words = []
        for j in range(0, 16, 4):
            skipped = skip(i, i + 3, j, j + 3)
            words.append("skip " if skipped else "visit")
            lost += skipped * allowed[i : i + 4, j : j + 4].sum()
        print("  ", *words)
    print(f"   allowed pairs lost: {lost} of {allowed.sum()}")

# %% reveal-rule
p_rule.reveal(
    "B: max(query) < min(key)",
    "Take queries 0-3 and keys 12-15, which lie in the future: 3 < 12. Rule A finds the opposite "
    "corner: tiles where every pair is allowed. It drops them and visits the future.",
)

# %% tall-text [markdown]
# ## Why a tall Q tile
#
# Count bytes along the schedule, by hand. One head, `N = 4096`, `d = 128`, half
# precision: 2 bytes per number. K is 4096 · 128 · 2 bytes = 1 MiB. With
# `block_q = 128` there are 32 Q tiles. K is loaded 32 times: 32 MiB. So is V.
# Q and O are 1 MiB each. Together 66 MiB.
#
# Which tile sizes would need less?

# %% predict-block-k
p_block_k = Predict(
    "4-block-k",
    "Keep block_q = 128 and halve block_k from 128 to 64. The bytes loaded "
    "from K and V, all together:",
    options=["are halved", "stay the same", "are doubled"],
)
p_block_k

# %% tall folded=true
# @title A table: what each choice of tiles loads
flops, rows = attention_flops(4096, 4096, 128), []
for block_q, block_k in [(16, 128), (64, 128), (128, 128), (128, 64), (256, 32)]:
    moved = flash_tile_loads.bytes(n=4096, d=128, block_q=block_q, block_k=block_k)
    desk = tile_bytes(block_q, block_k, 128)["total"] / 1024
    rows.append((block_q, block_k, moved / 2**20, flops / moved, desk))
names = ("block_q", "block_k", "MiB loaded", "FLOP per byte", "desk KiB")
note = "N = 4096, d = 128, 2 bytes, one head (model: tile loads). Desk: what lies there at a time"
Table(names, rows, dict.fromkeys(names, ".0f"), {"MiB loaded": "flash"}, note=note)


# %% reveal-block-k
p_block_k.reveal(
    "stay the same",
    "Each Q tile still meets every row of K and V once, only in smaller "
    "tiles. How often depends on the number of Q tiles, so block_q alone "
    "decides.",
)

# %% tall-read [markdown]
# - **Smaller Q tiles mean more re-reads**, not fewer: there are more of them, and
#   each needs all of K and V.
# - **FLOP per byte is about `block_q`** (with 2-byte numbers). A K/V tile is worth
#   more if more queries wait on the desk. (These bytes are *loaded*; how many of them come
#   from HBM is asked below. So 124 for tiles of 128 × 128 is not yet too little for an H100,
#   whose ridge is at 295.)
# - **Tall beats square.** 256 × 32 and 128 × 128 need about the same desk, and the
#   tall one loads about half as much. (In this model. With 32 keys a tile there are
#   four times as many steps for each Q tile, each with its own rescale.)
#
# Why is the loop over Q tiles outside? With K/V tiles outside, as in the first FlashAttention
# paper, `O`, `m` and ℓ of every Q tile travel to HBM and back for each K/V tile.

# %% sram-text [markdown]
# ## How large may a tile be?
#
# What must lie on the desk at the same time? By hand: `d = 128`, both tiles
# 128 rows, 2 bytes per number. Q, K, V, O tiles: 128 · 128 · 2 bytes = 32 KiB
# each. S, the scores of this tile: 128 · 128 · 2 = 32 KiB. `m` and ℓ with 4
# bytes each (*statistics*): 1 KiB. Together 161 KiB.

# %% sram-plot-text [markdown]
# Now with the shared memory that a program gets of a desk (an H100's: 227 KiB), and tiles of
# your choice; in the picture B is short for block. The upright lines are walls, one for each
# kind of GPU. Predict, then drag the edges of Q and K.

# %% predict-wall
p_wall = Predict(
    "4-wall",
    "block_q = 256, d = 128, 2 bytes. Which power of two is the largest block_k inside an "
    "H100's wall?",
    options=["32", "64", "128", "256"],
)
p_wall

# %% sram-plot
SramBudget(block_q=128, block_k=128, d=128, dtype="fp16", n=4096)

# %% reveal-wall
p_wall.reveal(
    "64",
    "Each key brings a row of K, a row of V and a column of S: 256 + 256 + 512 bytes, 1 KiB. "
    "The rest takes 130 KiB, and the wall is at 227.",
)

# %% sram-honest [markdown]
# **This is a model.** It puts every buffer into shared memory, as the paper's
# picture does. Real kernels keep S and O in the desk's other part, the registers, in fp32, and
# hold two or more K/V tiles, so that the next one arrives while this one is used:
# [choose that layout](#fac-sram-layout) and look again. What the model shows well is what
# grows with what: the tiles of Q, K, V, O with their rows, S with the product of both.

# %% memory-text [markdown]
# ## The instrument: a flat memory that counts
#
# A GPU kernel sees no matrices. It sees one long row of numbers, and computes
# **addresses**. A matrix with 3 rows and 4 columns lies there row after row:
#
# ```text
# address   64  65  66  67 | 68  69  70  71 | 72  73  74  75
# element   0,0 0,1 0,2 0,3  1,0 1,1 1,2 1,3  2,0 2,1 2,2 2,3
# ```
#
# By hand: the matrix begins at address 64 (its **base**; a gap that belongs to nobody
# comes first). From one row to the next it is 4 elements (the **stride**). Where is row 2,
# column 1? At 64 + 2 · 4 + 1 = 73.
#
# For a whole tile we want a table of addresses: rows as a column, columns as a
# row, and NumPy adds them to a table (broadcasting).

# %% memory-addresses
flat = FlatMemory()
base = flat.place("x", np.arange(12.0).reshape(3, 4))
rows, cols = np.array([1, 2]), np.arange(4)
at = base + rows[:, None] * 4 + cols[None, :]  # (2, 4)
print("base", base, "\naddresses\n", at, "\nvalues\n", flat.load(at))
print("bytes read from x:", flat.read["x"])

# %% memory-mask-text [markdown]
# Every load is booked, 4 bytes for each number (float32). A program whose tile
# runs past the end uses a **mask**: where it is False nothing is read, and
# `other` stands in. Without the mask this memory complains. A GPU would not: it
# would hand you somebody else's numbers.

# %% memory-mask
rows = np.array([2, 3])  # row 3 does not exist
at = base + rows[:, None] * 4 + cols[None, :]
print(flat.load(at, mask=rows[:, None] < 3, other=0.0))
try:
    flat.load(at)
except IndexError as error:
    print(error)

# %% program-text [markdown]
# ## A program in the shape of a kernel
#
# The worker as a **program**: a function that does the work of one Q tile. `pid` (program id)
# says which: here it is the tile's number, with several heads a pair, which tile and which
# head. On a GPU many programs run at the same time, in no fixed order. Here we launch them
# with a loop.
#
# This one only carries: it makes all loads and the one store of attention, and
# no arithmetic. In exercise 4.6 you put the arithmetic in.


# %% carry-program
def carry_program(pid, memory, q, k, v, o, n, d, block_q, block_k):
    """Make the loads and stores of one Q tile; q, k, v, o are addresses."""
    cols = np.arange(d)  # (d,)
    rows = pid * block_q + np.arange(block_q)  # (block_q,)
    q_at = rows[:, None] * d + cols[None, :]  # (block_q, d): places, counted from q or o
    memory.load(q + q_at, mask=rows[:, None] < n)
    for start in range(0, n, block_k):
        keys = start + np.arange(block_k)  # (block_k,)
        k_at = keys[:, None] * d + cols[None, :]  # (block_k, d)
        memory.load(k + k_at, mask=keys[:, None] < n)
        memory.load(v + k_at, mask=keys[:, None] < n)
    memory.store(o + q_at, 0.0, mask=rows[:, None] < n)


def launch(n, d, block_q, block_k):
    """Run one program per Q tile and return the memory with its books."""
    memory = FlatMemory(itemsize=2)  # counts as half precision
    at = [memory.place(name, np.ones((n, d))) for name in "qkvo"]
    for pid in range(-(-n // block_q)):  # ceil(n / block_q) programs
        carry_program(pid, memory, *at, n, d, block_q, block_k)
    return memory


# %% race-text [markdown]
# Play the loads and stores of three such programs, one after the other, beside naive
# attention at the same scale. Count how often the walk passes K.

# %% race
carried = launch(n=192, d=32, block_q=64, block_k=32)
Race.replay(carried, beside="naive", whose="the program that carries")

# %% k-reads
carried

# %% model-meets-ledger-text [markdown]
# These are the books. The model for these repeated loads is the **tile-load** model. One
# head: Q and O once, K and V once per Q tile,
#
# bytes = `2 N d b + 2 T_q N d b`
#
# with `b` bytes per number. Model and books must agree to the byte, ragged
# lengths included.

# %% model-meets-ledger
rows = []
for n, block_q, block_k in [(192, 64, 32), (257, 128, 128), (100, 16, 48)]:
    counted = launch(n, 32, block_q, block_k).total
    model = flash_tile_loads.bytes(n=n, d=32, block_q=block_q, block_k=block_k)
    rows.append((n, block_q, block_k, counted, model))
columns = ("n", "block_q", "block_k", "bytes counted", "bytes of the model")
Table(columns, rows, dict.fromkeys(columns[3:], ","))

# %% eager-tiles-text [markdown]
# ### Tiles alone save no trips
#
# The loops are not the point; the desk is. In eager PyTorch every line is a kernel
# of its own. Run the tiled loops like this, and `S`, `P`, `m`, ℓ and `O` travel for
# every tile. Let the eager ledger of lesson 01 count (float32, `N = 512`, `d = 64`,
# one head).

# %% eager-tiles folded=true
# @title A table: tiles in eager PyTorch, and as one kernel
import torch

from course_lib import EagerLedger
from course_lib.attention.naive_eager import naive_eager
from course_lib.attention.tiled_eager import tiled_eager

qt, kt, vt = torch.randn(3, 512, 64)
with EagerLedger() as naive_books:
    naive_eager(qt, kt, vt)
with EagerLedger() as tiled_books:
    tiled_eager(qt, kt, vt, block_q=64, block_k=64)
one_kernel = flash_tile_loads.bytes(n=512, d=64, b=4, block_q=64)
rows = [
    ("eager, 6 trips", naive_books.total / 1e6, naive_books.peak_bytes / 1e6, "counted"),
    ("eager, tiled", tiled_books.total / 1e6, tiled_books.peak_bytes / 1e6, "counted"),
    ("tiled, one kernel", one_kernel / 1e6, 512 * 64 * 4 / 1e6, "model: tile loads, O"),
]
names = ("", "MB moved", "MB held", "how")
kinds = dict.fromkeys(names[1:3], "naive"), {"tiled, one kernel": "flash"}
Table(names, rows, dict.fromkeys(names[1:3], ".1f"), *kinds)

# %% eager-tiles-read [markdown]
# The eager tiles move more than the three lines do. They do save *space*. To save
# *traffic*, the whole loop must be one kernel, with its state on the chip. That
# is what lessons 05 to 07 build.

# %% ratio-text [markdown]
# ## Exhibit: "the advantage grows 2×, 4×, 8×"
#
# So it is said of naive attention (the four trips) against tile loads at `d = 128`
# and `block_q = 128`: 2× at N = 4096, 4× at 8192, 8× at 16384. Predict, count, decide.

# %% predict-ratio
p_ratio = Predict(
    "4-ratio",
    "Bytes of naive divided by bytes of tile loads, from N = 4096 to 16384:",
    options=["grows 2x, 4x, 8x", "stays at about 2x", "shrinks 8x, 4x, 2x"],
)
p_ratio

# %% ratio folded=true
# @title A table: naive and tile loads, from N = 4096 to 16384
rows, models = [], (naive_four_trips, flash_tile_loads, flash_compulsory)
for n in (4096, 8192, 16384):
    four, loads, least = (m.bytes(n=n, d=128, block_q=128) / 2**20 for m in models)
    rows.append((n, four, loads, least, four / loads, four / least))
names = (
    "N",
    "naive MiB",
    "tile loads MiB",
    "compulsory MiB",
    "naive / loads",
    "naive / compulsory",
)
formats = dict.fromkeys(names, ",.0f") | {"naive / loads": ".2f"}
Table(names, rows, formats, dict.fromkeys(names[4:], "naive"), note="one head, d = 128, 2 bytes")


# %% reveal-ratio
p_ratio.reveal(
    "stays at about 2x",
    "Both grow with N squared: 4 N² b against 2 N² d b / block_q. The ratio "
    "is 2 block_q / d. Only the compulsory bytes grow with N alone, and only "
    "the ratio to them grows.",
)

# %% ratio-read [markdown]
# The *space* that attention needs grows with `N` now. The bytes that it loads still
# grow with `N²`, as naive's do; at these tiles they are half of the model's four trips, and
# half is not much.
#
# And yet fused attention was measured to be more than four times faster (lesson
# 02: H100, N = 8192, 8 heads, d = 128, bf16). One missing piece: a load
# instruction does not always reach HBM.

# %% l2-text [markdown]
# ## Where the re-reads land
#
# Between the desks and HBM is the **L2 cache**, lesson 02's shelf: 50 MiB on an
# H100, shared by all programs. What one program has just loaded, the next often
# finds there.
#
# So the traffic of HBM (DRAM to the counters) lies between two bounds:
#
# - **at least** the compulsory bytes: everything once. (A counter may miss what still lies in
#   L2 when the kernel ends, so it can show a little less.)
# - **at most** about the tile loads: nothing is ever found in L2. (We take tiles of 128 rows,
#   as PyTorch's
#   [source](https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/transformers/cuda/flash_attn/flash_fwd_launch_template.h)
#   does for d = 128 on an H100.)
#
# Where between them? No model of ours says. It was measured with the hardware
# counters of an H100 (bf16, d = 128, PyTorch's *SDPA flash* of lesson 02; *ncu* is the
# tool that reads them). First your predictions. The call has `N = 131072` and 8 heads. The
# tile loads ask for 550 GB. The compulsory bytes are 1.07 GB.

# %% predict-dram
p_dram = Predict(
    "4-dram",
    "No mask. How many GB does DRAM move, reads and writes together?",
    unit="GB",
)
p_dram

# %% predict-dram-causal
p_dram_causal = Predict(
    "4-dram-causal",
    "Now with a causal mask: about half of the tiles and of the loads. DRAM "
    "traffic, compared with no mask:",
    options=[
        "about a thirtieth",
        "about half",
        "about the same",
        "about twice as much",
        "about 30 times as much",
    ],
)
p_dram_causal

# %% dram-bounds folded=true
# @title The two bounds, by formula
record = load_measurements("h100_dram_traffic")


def bounds_gb(n, causal):
    """Return (compulsory, tile loads) in GB; the model's block_q is 128."""
    shape = {"n": n, "d": 128, "heads": 8, "causal": causal}
    low = flash_compulsory.bytes(**shape)
    return low / 1e9, flash_tile_loads.bytes(block_q=128, **shape) / 1e9


# %% dram-numbers folded=true
# @title A table: what DRAM moved, between its bounds
from course_lib.figures.dram import calls

calls(bounds_gb)


# %% reveal-dram
long_calls = [r for r in record["rows"] if r["n"] == 131072 and r["heads"] == 8]
dram = {r["causal"]: max(r["dram_gb"]) for r in long_calls}
low, high = bounds_gb(131072, causal=False)
p_dram.reveal(
    dram[False],
    f"{dram[False] / low:.1f} times the lower bound. The tile loads ask for "
    f"{high / dram[False]:.0f} times what DRAM moved.",
)

# %% reveal-dram-causal
p_dram_causal.reveal(
    "about 30 times as much",
    f"{dram[True]:.3g} GB with the mask, {dram[False]:.3g} GB without: though the mask leaves "
    "about half of the tiles.",
)

# %% dram-read [markdown]
# - **N = 8192, no mask.** K and V of all heads are 32 MiB. They fit into L2, and "Q, K, V, O
#   once" is true, of PyTorch's kernel.
# - **N = 131072, causal.** K and V are 512 MiB. Half of what the tiles load now
#   reaches DRAM: more than 130 times the bound. "Once" is far from true here.
#
# So much was measured. Our reading of it: programs that run at the same time and walk
# over the same keys *in step* share each delivery; causal ones have walks of different
# length, and fall out of step.
#
# So "each tensor is read once" and "K and V are read `T_q` times" are both half true:
# the first at moderate N, the second of the load instructions.

# %% shown [markdown]
# ## What was not shown
#
# That any of this is fast: NumPy programs say nothing about
# time. The desk of this lesson is a model. And K and V do not become smaller: they
# are input and must exist; the scores never had to. (A model that writes a text keeps
# K and V of every earlier token: its *KV cache*.)

# %% questions [markdown]
# ## Questions

# %% quiz-reloads
Quiz(
    "N = 8192, no mask, Q tiles of 128 rows, K/V tiles of 64 rows, one head. "
    "How often do the load instructions fetch one K tile?",
    answer=64,
    tolerance=0,
    unit="times",
    explanation="Once per Q tile: 8192 / 128 = 64. The 64 rows of a K tile "
    "have nothing to do with it. How many of these loads reach DRAM is another "
    "question: on the H100 above, at this N, about one.",
)

# %% quiz-causal
Quiz(
    "Causal, 8 x 8 square tiles. Which share of the tiles is skipped?",
    answer=43.75,
    unit="%",
    explanation="(T + 1) / (2 T) = 9 / 16 are visited, so 7 / 16 are skipped: "
    "28 of 64. 'About half' is right for many tiles only.",
)

# %% quiz-cache
Quiz(
    "A chat runs out of GPU memory at a long context, although attention is tiled. What grew?",
    options=[
        (
            "the KV cache: K and V of every token, layer and K/V head",
            True,
            "It is input that must be kept, and it grows with the length. Tiles do not shrink it.",
        ),
        (
            "the tables of scores",
            False,
            "They never exist. One tile per running program does, whatever the length.",
        ),
        (
            "the cache, because it grows by whole tiles of 128 tokens",
            False,
            "Tokens are appended one by one. A tile is a way of reading, not of storing.",
        ),
        (
            "the tiles on the chip",
            False,
            "Their size is fixed when the kernel is compiled.",
        ),
    ],
)

# %% exercises [markdown]
# ## Your turn
#
# Open `exercises/04_tiles.ipynb`. You write the loops (4.1 to 4.3), the three
# words for causal tiles (4.4), predict loads and let the ledger decide (4.5),
# and write the whole kernel in NumPy on flat memory (4.6). The starred exercise
# has a window and shared heads: for it, read the optional part below.
#
# ## What comes next
#
# Lesson 05 starts Triton: programs, addresses and masks are the ones you have
# just seen. In lesson 07 your NumPy program from 4.6 stands on the left, and
# the Triton kernel on the right, line by line.
#
# ## To read
#
# - Dao, Fu, Ermon, Rudra, Ré 2022, *FlashAttention*,
#   [arXiv:2205.14135](https://arxiv.org/abs/2205.14135): Algorithm 1 and
#   section 3.2 on the number of HBM accesses.
# - Dao 2023, *FlashAttention-2*,
#   [arXiv:2307.08691](https://arxiv.org/abs/2307.08691): sections 3.1
#   and 3.2: Q tiles in the outer loop, as here.
# - Rabe and Staats 2021, *Self-attention Does Not Need O(n²) Memory*,
#   [arXiv:2112.05682](https://arxiv.org/abs/2112.05682): the same idea, told
#   for memory alone.

# %% optional-text [markdown]
# ## Optional: windows, shared heads, other scores, sinks; the largest tile
#
# Skip this on a first reading; 4★ needs its first two.
#
# ### Four things real models add
#
# Each fits into the same loop.
#
# **A sliding window** (Mistral 7B v0.1; every other layer of gpt-oss, five of
# six of Gemma 3): each query sees the last `w` keys only.
# Tiles left of the window are skipped as well, so the visited tiles grow with
# `N`, no longer with `N²`.

# %% optional-window
rows = []
for n in (4096, 8192, 16384):
    wide = derived_counts(n, n, 128, 128, causal=True)["visited_tiles"]
    narrow = derived_counts(n, n, 128, 128, window=1024)["visited_tiles"]
    rows.append((n, wide, narrow))
columns = ("N", "tiles, causal", "tiles, window of 1024")
Table(columns, rows, dict.fromkeys(columns, ","), dict.fromkeys(columns[1:], "flash"))

# %% optional-gqa-text [markdown]
# **Grouped-query attention** (GQA): several query heads share one K/V head. K
# and V in memory shrink by that factor. The tile loads do not, if each query
# head has a program of its own: each loads its own copy.

# %% optional-gqa
shape = {"n": 8192, "d": 128, "heads": 32, "block_q": 128}
rows = []
for kv_heads in (32, 8):
    least = flash_compulsory.bytes(kv_heads=kv_heads, **shape) / 1e9
    loads = flash_tile_loads.bytes(kv_heads=kv_heads, **shape) / 1e9
    rows.append((32, kv_heads, least, loads))
columns = ("heads", "K/V heads", "the least, GB", "tile loads, GB")
Table(columns, rows, {columns[2]: ".2f", columns[3]: ".1f"}, note="By formula.")

# %% optional-mods-text [markdown]
# **Score modifiers.** They change a score knowing only the score and its place
# `(i, j)`. So they can be applied tile by tile, before the maximum.
#
# - *Soft-cap* (Gemma 2): `cap * tanh(s / cap)` keeps scores between -cap and
#   cap.
# - *ALiBi*: `s - slope * (i - j)`; far keys count for less.
#
# **A sink** (StreamingLLM describes them; gpt-oss learns one number per
# head): an extra key whose value is zero. It takes weight and gives nothing.
# In the loop it is a start: instead of no key at all, begin with `m = sink`,
# ℓ = 1, `O = 0`.


# %% optional-mods
def modified(q, k, v, modify, block_k, sink=-np.inf):
    """Attention of one head with modified scores: (n_q, d)."""
    i = np.arange(len(q))[:, None]  # (n_q, 1)
    extra = np.full((len(q), 1), sink)  # one more key, its value is zero
    state = OnlineState.from_tile(extra, np.zeros((1, v.shape[1])))
    for start in range(0, len(k), block_k):
        cols = slice(start, start + block_k)
        j = np.arange(len(k))[None, cols]  # (1, block_k)
        s = modify(q @ k[cols].T / np.sqrt(q.shape[1]), i, j)
        state = state.merge(OnlineState.from_tile(s, v[cols]))
    return state.finalize()[0]


# %% optional-mods-run
def soft_cap(s, i, j):
    return 3 * np.tanh(s / 3)


def alibi(s, i, j):
    return np.where(j <= i, s - 0.5 * (i - j), -np.inf)


q, k, v = 2 * np.random.default_rng(7).standard_normal((3, 37, 8))
for modify, sink in [(soft_cap, -np.inf), (alibi, -np.inf), (alibi, 1.0)]:
    i, j = np.arange(37)[:, None], np.arange(37)[None, :]
    s = modify(q @ k.T / np.sqrt(8), i, j)  # the whole table, as a check
    s = np.hstack([np.full((37, 1), sink), s])
    whole = softmax_rows(s) @ np.vstack([np.zeros((1, 8)), v])
    error = np.abs(modified(q, k, v, modify, 16, sink) - whole).max()
    print(f"{modify.__name__}, sink {sink}: largest difference {error:.1e}")

# %% sram-largest [markdown]
# (To read: Mistral 7B, [arXiv:2310.06825](https://arxiv.org/abs/2310.06825); GQA,
# [arXiv:2305.13245](https://arxiv.org/abs/2305.13245); ALiBi,
# [arXiv:2108.12409](https://arxiv.org/abs/2108.12409); Gemma 2,
# [arXiv:2408.00118](https://arxiv.org/abs/2408.00118); StreamingLLM,
# [arXiv:2309.17453](https://arxiv.org/abs/2309.17453).)
#
# ### The largest square tile
#
# For square tiles of `B` rows and `d = 128`: four buffers of `B · 128 · 2`
# bytes and one of `B · B · 2` bytes, so `1024 B + 2 B²` bytes (without `m` and
# ℓ). Predict first: which is the largest B with `1024 B + 2 B² <= 192 · 1024`? About 185,
# as one can read? A guess is enough.

# %% predict-largest
p_largest = Predict(
    "4-largest-tile",
    "Which is the largest B in 192 KiB, at d = 128?",
    unit="rows",
)
p_largest

# %% sram-exhibit
kib = {B: (1024 * B + 2 * B * B) / 1024 for B in (148, 149)}
p_largest.reveal(
    largest_square_tile(192 * 1024, d=128),
    f"148 rows need {kib[148]:.1f} KiB, 149 rows {kib[149]:.1f}. 185 would need 252 KiB. Put the "
    "answer back into the inequality: that takes ten seconds and finds such mistakes.",
)

# %% quiz-largest
Quiz(
    "An A100 gives one desk 163 KiB of shared memory. d = 128, 2 bytes per "
    "number, four buffers of B x d and one of B x B. Which is the largest B?",
    answer=129,
    tolerance=0,
    unit="rows",
    explanation="1024 B + 2 B² <= 166,912. B = 129 needs 165,378 bytes, "
    "B = 130 needs 166,920: eight too many.",
)

# %% dram-text [markdown]
# ### The accountant, with tile loads
#
# The accountant of lesson 02 has one more area here, the
# [tile loads](#fac-accountant-flash_tile_loads). The grey area is what our own
# program was seen to load and store. Under
# [the lines over N](#fac-accountant-over-n) are buttons with the settings of the
# hardware counters, and diamonds show what DRAM delivered.

# %% dram-plot
accountant = HBMAccountant(n=2048, d=128, heads=1, block_q=128, block_k=128)
books = launch(n=2048, d=128, block_q=128, block_k=128)
accountant.add_ledger(books, "our program, N = 2048, 1 head")
accountant
