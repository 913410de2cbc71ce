# %% title [markdown]
# # 04 · Tiles: exercises
#
# Six exercises, about 82 minutes, and one more with a star. You need lesson 04
# and NumPy; no GPU, no Triton. Run a cell with Shift+Enter.
# `hint(tile_bounds)` gives a hint, three at most for each exercise.
#
# One head unless an exercise says otherwise. No mask before 4.4. Your functions
# leave their arguments as they are. Arrays are float64 (the memory of 4.6 holds float32): round to
# nothing coarser on the way, and add nothing to a sum that does not belong to it. A tiny weight
# may stand beside a huge value: no share of an average may be lost in the rounding of another.

# %% imports
import numpy as np

from course_lib import check, hint, progress
from course_lib.accounting.memory import FlatMemory

# %% about-4-1 [markdown]
# ## 4.1 · Where do the tiles begin and end? (4 minutes)
#
# Cut the rows `0 .. n - 1` into tiles of `tile` rows. Return a list of pairs
# `(start, stop)`, in order. Row `start` belongs to the tile, row `stop` does
# not: this is how Python slices count. The last tile may be shorter. There may be
# a thousand tiles and more, and each call returns a list of its own. No rows make no tile.
#
# Example: `tile_bounds(10, 4)` is `[(0, 4), (4, 8), (8, 10)]`.
# Before you check: how many tiles do 300 rows make, if a tile has 64?


# %% ex-4-1
def tile_bounds(n, tile):
    """Return [(start, stop), ...]: rows 0 .. n - 1 in tiles of tile rows."""
    ### BEGIN SOLUTION
    starts = range(0, n, tile)
    return [(start, min(start + tile, n)) for start in starts]
    ### END SOLUTION


# %% check-4-1
check(tile_bounds)

# %% about-4-2 [markdown]
# ## 4.2 · One Q tile against all keys (20 minutes)
#
# This is the worker of the lesson. A few queries stay on the desk, the keys and
# values come by in tiles of `block_k` rows. Lesson 03 did this for one query:
# its `m` and `l_sum` were numbers. Now there is one of each for every row.
#
# | name | shape | what it is |
# |---|---|---|
# | `q_tile` | `(n_rows, d)` | the queries on the desk |
# | `k`, `v` | `(n_k, d)` | all keys and values |
# | `m`, `l_sum` | `(n_rows,)` | running maximum, running sum |
# | `o` | `(n_rows, d)` | running output, not divided yet |
# | `s`, `p` | `(n_rows, block_k)` | scores of this tile; weights, not divided yet |
#
# - The score of query and key is `q · k / sqrt(d)`.
# - The last tile of keys may be short. In which order the tiles come is up to you.
# - Return one array `(n_rows, d)`. It leaves the desk once, at the end.
# - **Take each tile of K and V once, whole: `k[start:stop]`.** Until you take the next
#   you may look at it again; then its numbers become NaN. The check counts, and
#   measures your memory.


# %% ex-4-2
def attend_q_tile(q_tile, k, v, block_k):
    """Return softmax(q_tile k^T / sqrt(d)) v, shape (n_rows, d).

    q_tile: (n_rows, d); k, v: (n_k, d), visited block_k rows at a time.
    """
    ### BEGIN SOLUTION
    n_rows, d = q_tile.shape
    m = np.full(n_rows, -np.inf)
    l_sum = np.zeros(n_rows)
    o = np.zeros((n_rows, d))
    for start in range(0, len(k), block_k):
        cols = slice(start, start + block_k)
        s = q_tile @ k[cols].T / np.sqrt(d)  # (n_rows, block_k)
        m_new = np.maximum(m, s.max(axis=1))
        alpha = np.exp(m - m_new)  # (n_rows,)
        p = np.exp(s - m_new[:, None])  # (n_rows, block_k)
        l_sum = alpha * l_sum + p.sum(axis=1)
        o = alpha[:, None] * o + p @ v[cols]
        m = m_new
    return o / l_sum[:, None]
    ### END SOLUTION


# %% check-4-2
check(attend_q_tile)

# %% about-4-3 [markdown]
# ## 4.3 · All Q tiles (7 minutes)
#
# Put the loop over Q tiles around it. Q outside, K and V inside.
#
# - `q` is `(n_q, d)`; `k` and `v` are `(n_k, d)`. `n_q` and `n_k` may differ,
#   and so may `block_q` and `block_k`.
# - Return one new array `(n_q, d)`.
# - Each Q tile starts with a clean desk: its own `m`, `l_sum` and `o`.
# - **Each Q tile is loaded once, each tile of K and V once per Q tile**, of the sizes
#   that the call asks for. The check counts, as in 4.2: a tile of Q lies on the desk until
#   you take the next one of Q, so the same `q[start:stop]` in the inner loop is one visit.
#
# You may call your `attend_q_tile` and `tile_bounds`. If you left them out,
# write their loops here.


# %% ex-4-3
def tiled_attention(q, k, v, block_q, block_k):
    """Return softmax(q k^T / sqrt(d)) v, shape (n_q, d), tile by tile.

    q: (n_q, d); k, v: (n_k, d). At most (block_q, block_k) scores exist.
    """
    ### BEGIN SOLUTION
    o = np.zeros((len(q), v.shape[1]))  # (n_q, d)
    for start, stop in tile_bounds(len(q), block_q):
        o[start:stop] = attend_q_tile(q[start:stop], k, v, block_k)
    return o
    ### END SOLUTION


# %% check-4-3
check(tiled_attention)

# %% about-4-4 [markdown]
# ## 4.4 · Skip, partial or full? (12 minutes)
#
# Now with a causal mask: no query looks at a later key. A tile has the rows
# `row_start .. row_stop - 1` (queries) and the columns
# `col_start .. col_stop - 1` (keys). Return one of three words.
#
# - `"skip"`: no pair of the tile is allowed. Neither load nor compute it.
# - `"full"`: every pair is allowed. Compute it, no mask needed.
# - `"partial"`: some are. Compute it, then mask.
#
# Query `i` stands at position `i + offset` and may look at key `j` if
# `j <= i + offset`. With as many queries as keys the offset is 0. With 2 new
# queries after 8 old keys (10 keys in all) it is 8. (PyTorch's `is_causal=True` always has
# offset 0.) With fewer keys than
# queries it is negative. Every tile has a row and a column at least.
#
# Example: rows 4 to 7 are `classify_tile(4, 8, ...)`. Columns 0 to 3 are all
# in the past: `classify_tile(4, 8, 0, 4)` is `"full"`.
#
# Draw the tile first. Which corner decides that nothing is allowed? Which
# corner decides that everything is?


# %% ex-4-4
def classify_tile(row_start, row_stop, col_start, col_stop, offset=0):
    """Return "skip", "partial" or "full" for one tile of a causal mask.

    Rows [row_start, row_stop) are queries, columns [col_start, col_stop) keys;
    query i may look at key j if j <= i + offset.
    """
    ### BEGIN SOLUTION
    first_q, last_q = row_start + offset, row_stop - 1 + offset
    first_k, last_k = col_start, col_stop - 1
    if last_q < first_k:  # even the last query comes before the first key
        return "skip"
    if first_q >= last_k:  # even the first query may see the last key
        return "full"
    return "partial"
    ### END SOLUTION


# %% check-4-4
check(classify_tile)

# %% about-4-5 [markdown]
# ## 4.5 · Predict the loads (7 minutes)
#
# A question: the function returns your answers, and you compute them in your
# head or on paper. One head, no mask, `N = 256` queries and keys, `d = 32`.
# Q tiles and K/V tiles have the same number of rows. Each Q tile is one
# program; a program loads its Q tile and, one after the other, all K and V
# tiles. Nothing else is loaded.
#
# Return a dict with five numbers:
#
# - `"q_times"`: tiles of 64 rows. How often is each row of Q loaded?
# - `"k_times"`: tiles of 64 rows. How often is each row of K loaded, all
#   programs together?
# - `"k_times_tile_16"`: the same for tiles of 16 rows.
# - `"k_growth"`: tiles of 64 rows, but `N = 512`. By which factor do the bytes
#   *loaded* from K grow? (2 means: twice as many.)
# - `"size_growth"`: and by which factor does the space grow that Q, K, V and O
#   *occupy*?
#
# Write `return {"q_times": ..., "k_times": ..., ...}`. Check, and then let the
# ledger below decide.


# %% ex-4-5
def predict_loads():
    """Return {"q_times", "k_times", "k_times_tile_16", "k_growth",
    "size_growth"}, each with a number."""
    ### BEGIN SOLUTION
    return {
        "q_times": 1,
        "k_times": 4,  # once for each of the 256 / 64 query tiles
        "k_times_tile_16": 16,  # 256 / 16 query tiles
        "k_growth": 4,  # twice the rows, loaded by twice the programs
        "size_growth": 2,
    }
    ### END SOLUTION


# %% check-4-5
check(predict_loads)

# %% the-ledger-decides [markdown]
# The program below only loads. The flat memory of the lesson counts. Once you have answered,
# take the `#` of the last cell away, run it and compare. Then change the tile and `N`.


# %% loads-only
def loads_only(n, tile, d=32):
    """Launch one program per Q tile; each loads, and computes nothing."""
    memory = FlatMemory()
    q, k, v = (memory.place(name, np.ones((n, d))) for name in "qkv")
    cols = np.arange(d)
    for start_q in range(0, n, tile):  # one program
        rows = start_q + np.arange(tile)[:, None]  # (tile, 1)
        memory.load(q + rows * d + cols, mask=rows < n)
        for start_k in range(0, n, tile):
            keys = start_k + np.arange(tile)[:, None]
            memory.load(k + keys * d + cols, mask=keys < n)
            memory.load(v + keys * d + cols, mask=keys < n)
    return memory


def show_loads(*sizes):
    for n, tile in sizes:
        read, once = loads_only(n, tile).read, n * 32 * 4
        q_times, k_times = read["q"] / once, read["k"] / once
        print(f"N = {n}, tile {tile:2}: Q is read {q_times:g} times,", end=" ")
        print(f"K {k_times:g} times, {read['k']:,} bytes")


# %% loads-shown
# show_loads((256, 64), (256, 16), (512, 64))

# %% about-4-6 [markdown]
# ## 4.6 · The kernel, in NumPy (32 minutes)
#
# No matrices any more: one flat memory, and addresses. This is the shape of
# the Triton kernel of lesson 07, line by line, with the same names. Two steps.
#
# **`load_tile` and `store_tile`.** Row `i`, column `c` of a matrix that begins at `base` lies
# at `base + i * stride_row + c`. The **stride** is how far it is from one row to the next; it
# need not be `head_dim`. Example: base 64, stride 10; row 2, column 1 lies at 85.
#
# - `memory.load(addresses, mask=..., other=0.0)` returns the numbers at these
#   addresses, in the shape of `addresses`; `other` where the mask is False.
# - `memory.store(addresses, values, mask=...)` writes. A program has no other
#   way to memory than these two.
# - Tiles are always full size here: `rows` may run past the end. Such rows must not be
#   touched: a mask.
#
# **`flash_program`.** Inside, everything is as in 4.2: `m`, `l_sum`, and `acc` for the running
# output. A program holds one tile of keys and its scores at a time.
#
# - `q`, `k`, `v`, `o` are **addresses**, each of the first element, and each has a row stride
#   of its own. `pid` is a pair: which Q tile, which head. The lines that find the head are
#   given.
# - Each score `q · k` is multiplied by `scale`, a number above 0 (most often
#   `1 / sqrt(head_dim)`).
# - Keys past the end must get no weight: their score is `-inf`, not 0.
#
# Besides the output, the check reads the books: **Q loaded once, K and V once
# per Q tile**, in tiles of `block_k` rows, **O stored once**, and no address that
# belongs to nobody. Each program stores its own tile; they run in any order. The cell before
# tries yours on a small call: take its `#` away.

# %% ex-4-6
def load_tile(memory, base, rows, n_rows, stride_row, head_dim):
    """Load these rows of an (n_rows, head_dim) matrix; past its end: 0."""
    cols = np.arange(head_dim)  # (head_dim,)
    ### BEGIN SOLUTION
    at = base + rows[:, None] * stride_row + cols[None, :]
    return memory.load(at, mask=rows[:, None] < n_rows, other=0.0)
    ### END SOLUTION


def store_tile(memory, base, tile, rows, n_rows, stride_row, head_dim):
    """Store a tile into these rows of an (n_rows, head_dim) matrix."""
    cols = np.arange(head_dim)  # (head_dim,)
    ### BEGIN SOLUTION
    at = base + rows[:, None] * stride_row + cols[None, :]
    memory.store(at, tile, mask=rows[:, None] < n_rows)
    ### END SOLUTION


# fmt: off
def flash_program(
    pid, memory, q, k, v, o,
    q_head, q_row,  # strides, in elements
    k_head, k_row,
    v_head, v_row,
    o_head, o_row,
    n_q, n_k, scale,
    head_dim, block_q, block_k,
):
    """One program: one tile of query rows of one head, against all its keys.

    q, k, v, o: addresses. Stores its tile of o, returns nothing.
    """
    tile, head = pid
    q = q + head * q_head
    k = k + head * k_head
    v = v + head * v_head
    o = o + head * o_head

    rows = tile * block_q + np.arange(block_q)  # (block_q,)
    ### BEGIN SOLUTION
    q_tile = load_tile(memory, q, rows, n_q, q_row, head_dim)
    m = np.full(block_q, -np.inf)
    l_sum = np.zeros(block_q)
    acc = np.zeros((block_q, head_dim))

    for start in range(0, n_k, block_k):
        keys = start + np.arange(block_k)  # (block_k,)
        k_tile = load_tile(memory, k, keys, n_k, k_row, head_dim)
        v_tile = load_tile(memory, v, keys, n_k, v_row, head_dim)

        s = q_tile @ k_tile.T
        s *= scale  # (block_q, block_k)
        visible = keys[None, :] < n_k
        s = np.where(visible, s, -np.inf)

        m_new = np.maximum(m, s.max(1))  # (block_q,)
        alpha = np.exp(m - m_new)
        p = np.exp(s - m_new[:, None])
        l_sum = l_sum * alpha + p.sum(1)
        acc *= alpha[:, None]
        acc += p @ v_tile
        m = m_new

    store_tile(memory, o, acc / l_sum[:, None], rows, n_q, o_row, head_dim)
    ### END SOLUTION
# fmt: on


# %% try-4-6
def try_programs(n=5, d=2, tile=2):
    """Run your programs on one head of n rows, and compare."""
    memory, x = FlatMemory(), np.random.default_rng(0).standard_normal((4, n, d))
    at = [memory.place(name, rows) for name, rows in zip("qkvo", x)]
    strides = (0, d) * 4  # (from head to head, from row to row) of q, k, v and o
    for i in range(-(-n // tile)):
        flash_program((i, 0), memory, *at, *strides, n, n, 0.5, d, tile, tile)
    weights = np.exp(0.5 * x[0] @ x[1].T)
    print("yours: ", memory.array("o").ravel().round(3))
    print("should:", (weights @ x[2] / weights.sum(axis=1, keepdims=True)).ravel().round(3))


# %% tried-4-6
# try_programs()

# %% check-4-6
check(flash_program)

# %% about-4-star [markdown]
# ## 4★ · A window and shared heads (35 minutes)
#
# For those who want more. Two things that real models do:
#
# - **Window.** Causal, and each query looks at the last `window` keys only,
#   its own included. With `n_k` keys and `n_q` queries, query `i` stands at
#   position `i + n_k - n_q`.
# - **Grouped heads.** `q` is `(H, n_q, d)`, `k` and `v` are `(H_kv, n_k, d)`.
#   `H_kv` divides `H`. Neighbours share: with 4 query heads and 2 key heads,
#   heads 0 and 1 use key head 0, heads 2 and 3 use key head 1.
#
# Return `(H, n_q, d)`. `n_q <= n_k`, and `window` is at least 1.
#
# Work in tiles, as in 4.3: Q tiles of `block_q` rows, tiles of `block_k` keys that
# begin at multiples of `block_k`. **For each Q tile, skip the tiles of keys that none
# of its rows may look at, and load the others once** for each query head, or for
# several heads together: `k[head, start:stop]`, `k[:, start:stop]`.
#
# A trap: a row may meet a tile in which it sees no key, before it has seen
# any. Then `m_new` is `-inf`, and `-inf - (-inf)` is NaN (lesson 03).
#
# - The check also wants: no loop over single rows and no copy of all of K (`np.repeat(k, ...)`;
#   repeat a tile, if you like). It counts as in 4.2: what lies on the desk may be looked at
#   until the next tile of the same array is taken. In one case it fills the tiles that
#   are to be skipped with NaN: computing them and masking afterwards does not help, for
#   `0 * NaN` is NaN. In the tiles that are loaded every number is finite.


# %% ex-4-star
def windowed_gqa_attention(q, k, v, window, block_q, block_k):
    """Causal attention over the last window keys, heads shared, tile by tile.

    q: (H, n_q, d); k, v: (H_kv, n_k, d) -> (H, n_q, d).
    """
    ### BEGIN SOLUTION
    n_heads, n_q, d = q.shape
    kv_heads, n_k, _ = k.shape
    out = np.zeros((n_heads, n_q, d))
    for head in range(n_heads):
        kv_head = head // (n_heads // kv_heads)
        for start in range(0, n_q, block_q):
            rows = np.arange(start, min(start + block_q, n_q))
            at = rows + n_k - n_q  # positions
            m = np.full(len(rows), -np.inf)
            l_sum = np.zeros(len(rows))
            o = np.zeros((len(rows), d))
            oldest = max(0, at[0] - window + 1)  # that any row here may see
            first = oldest // block_k * block_k
            for j in range(first, at[-1] + 1, block_k):
                keys = np.arange(j, min(j + block_k, n_k))
                back = at[:, None] - keys[None, :]  # steps into the past
                s = q[head, rows] @ k[kv_head, keys].T / np.sqrt(d)
                s = np.where((back >= 0) & (back < window), s, -np.inf)
                m_new = np.maximum(m, s.max(axis=1))
                base = np.where(m_new == -np.inf, 0.0, m_new)
                alpha = np.exp(m - base)
                p = np.exp(s - base[:, None])
                l_sum = alpha * l_sum + p.sum(axis=1)
                o = alpha[:, None] * o + p @ v[kv_head, keys]
                m = m_new
            out[head, rows] = o / l_sum[:, None]
    return out
    ### END SOLUTION


# %% check-4-star
check(windowed_gqa_attention)

# %% progress
progress()
