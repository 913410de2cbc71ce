# %% title [markdown]
# # 08 · Make it fast: exercises
#
# Three exercises, about 43 minutes. You need lesson 08, and your kernel from 7.4: solve that first,
# for 8.2b shows most of it. No GPU.
#
# | | you write | minutes |
# |---|---|---|
# | 8.1 | a rule that picks tiles from x-rays | 9 |
# | 8.2a | a prediction: tiles loaded, tiles masked | 12 |
# | 8.2b | the loop in two parts: only boundary tiles are masked | 22 |
#
# `hint(choose_tiles)` gives a hint, three at most for each exercise.

# %% imports
import torch
import triton
import triton.language as tl

from course_lib import check, count, hint, progress
from course_lib.accounting.measurements import load_measurements
from course_lib.kernels.ladder import edge_masks, skip_tiles
from course_lib.kernels.tiles import Tiles

# %% about-8-1 [markdown]
# ## 8.1 · Choose tiles by x-ray (9 minutes)
#
# The compiler knows what each choice of tiles costs, and it needs no GPU. The record `xray_tiles`
# holds what it made of one kernel (rung 3 of the ladder, float16, causal) for three GPUs. A row is
# one choice:

# %% one-row
for name, value in load_measurements("xray_tiles")["rows"][0].items():
    print(f"{name:14}{value}")

# %% what-they-mean [markdown]
# A *block*, in these names, is a program; `block_q` and `block_k` are rows of a tile. `fits`: this
# GPU has the `shared_bytes` of shared memory that a program asks for. `stack_bytes`: how many bytes
# of each thread spilled out of registers. `tensor_core`, `fma`: tensor-core and multiply-add
# instructions in the machine code (on a T4, an old, small GPU, this compiler makes none of the first, whatever the
# tiles). `blocks_per_sm`: how many programs one SM holds at once.
#
# `choose_tiles(rows)` gets the rows of one GPU and one `head_dim`, in any order, and returns the
# choice to try first, as `(block_q, block_k, num_warps, num_stages)`. Each row is a dict with the
# names printed above, so `row["blocks_per_sm"]` is a number. This is the rule:
#
# 1. It must fit.
# 2. It must not spill. (At least one row fits and does not spill.)
# 3. It must use tensor cores, if any row that is left does.
# 4. Of what is left, keep those with at least two programs on an SM, if there are any: one computes
#    while another waits for its tiles.
# 5. Of these, the most query rows: K and V are loaded once per tile of queries.
# 6. Still equal? The most keys, then the most stages (tiles on their way at once), then the fewest
#    registers.
#
# The rule says where to begin, not who wins: the last word has a clock. (The course's own table has
# other tiles for the H100 at `head_dim` 128. They were the fastest of the four choices that were
# timed with this kernel; the rule's first choice was not among those.)


# %% ex-8-1
def choose_tiles(rows):
    """Return (block_q, block_k, num_warps, num_stages) of the row to try first.

    rows: a list of dicts with the keys printed above.
    """
    ### BEGIN SOLUTION
    left = [r for r in rows if r["fits"] and r["stack_bytes"] == 0]
    left = [r for r in left if r["tensor_core"]] or left
    left = [r for r in left if r["blocks_per_sm"] >= 2] or left
    best = min(
        left,
        key=lambda r: (-r["block_q"], -r["block_k"], -r["num_stages"], r["registers"]),
    )
    return best["block_q"], best["block_k"], best["num_warps"], best["num_stages"]
    ### END SOLUTION


# %% check-8-1
check(choose_tiles)

# %% about-8-2a [markdown]
# ## 8.2 · Mask only where the mask can change something
#
# The causal kernel of 7.4 masks every tile it visits. Most need no mask: each row of the tile sees
# each key of it.
#
# **8.2a · Predict (12 minutes).** One head, `n` queries and `n` keys, causal. `n` is a multiple
# of `block_q` and of `block_k`, and both are powers of two. Return two numbers:
#
# 1. how many tiles of keys are **loaded**, over all tiles of queries: those in which at least one
#    row sees at least one key;
# 2. how many of these must be **masked**: at least one row does not see at least one key.
#
# A tile can be as small as one query or one key. Query `i` sees the keys `0` to `i`. Example:
# `n = 16` in tiles of 4 × 4 gives `(10, 4)`: 10 of 16 tiles, 62.5 %, are loaded, and only the 4 on
# the diagonal need a mask.


# %% ex-8-2a
def causal_tiles(n, block_q, block_k):
    """Return (loaded, masked): numbers of (block_q, block_k) tiles of one causal head."""
    ### BEGIN SOLUTION
    loaded = masked = 0
    for first in range(0, n, block_q):
        end = -(-(first + block_q) // block_k)  # the last row sees keys up to its own
        full = (first + 1) // block_k  # the first row sees first + 1 keys
        loaded += end
        masked += end - full
    return loaded, masked
    ### END SOLUTION


# %% check-8-2a
check(causal_tiles)

# %% decide-text [markdown]
# **Let the ledger decide.** It counts the loads of two of the course's kernels and the comparisons
# they make on whole tiles of scores (there a mask is one comparison and one `tl.where`, two in all;
# the mask of 8.2b below has one more `tl.where`). Rung 3
# masks every tile, rung 4 only boundary tiles.

# %% decide
n, block_q, block_k = 256, 64, 32
try:
    print("your prediction:", causal_tiles(n, block_q, block_k))
except NotImplementedError:
    print("your prediction: none yet (8.2a)")
q, k, v = (torch.randn(1, 1, n, 16) for _ in range(3))
for rung in (skip_tiles, edge_masks):
    ledger = count(rung, q, k, v, causal=True, tiles=Tiles(block_q, block_k))
    masks = sum(times for (_, shape), times in ledger.compared.items() if shape == (64, 32))
    print(f"{rung.__name__:11} {len(ledger.rows_of('k'))} tiles of K loaded, {masks // 2} masked")

# %% about-8-2b [markdown]
# **8.2b · Split the loop (22 minutes).** Start from your 7.4. The loop over the keys becomes
# two, in either order (a helper that you call twice, or one loop with an `if`, will do as well):
#
# - from 0 to `boundary`: tiles that *every* row of this program sees whole. No mask at all, not
#   even for keys past the end: there are none here.
# - from `boundary` to `end`: the rest, with the mask.
#
# `boundary` is a multiple of `BLOCK_K`, and at least 0. If the call is not causal, only a short
# last tile has to be masked. If it is, the program's **first** row decides: it sees the fewest
# keys, and with more queries than keys perhaps none. The mask is aligned at the end: query `i`
# sees key `j` if `j <= i + n_k - n_q`.
#
# Given are `load_tile` and `store_tile` as in lesson 07, `hide`, which is the whole mask, and
# `add_keys`, six of the seven lines of 7.2, all but `s`, with the guard of 7.4. The check looks at the results, at the
# loads (Q once, K and V once per visited tile, as in 7.4), and at the comparisons that each program
# makes on a tile of scores. `input_precision="ieee"` in every `tl.dot`, as before.


# %% staircase
# @title A picture: where the second tile of queries stops, and where its masks begin
from course_lib.figures.staircase import draw_staircase

draw_staircase(5, 9, block_q=2, block_k=4, tile=1, boundary=True)


# %% given
@triton.jit
def load_tile(base, rows, n_rows, HEAD_DIM: tl.constexpr):
    """Load rows of a contiguous (n_rows, head_dim) matrix; past its end: 0."""
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    ptrs = base + rows[:, None] * HEAD_DIM + cols[None, :]
    return tl.load(ptrs, mask=rows[:, None] < n_rows, other=0.0)


@triton.jit
def store_tile(base, tile, rows, n_rows, HEAD_DIM: tl.constexpr):
    """Store rows of a contiguous (n_rows, head_dim) matrix; none past its end."""
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    ptrs = base + rows[:, None] * HEAD_DIM + cols[None, :]
    tl.store(ptrs, tile.to(base.dtype.element_ty), mask=rows[:, None] < n_rows)


@triton.jit
def hide(s, rows, keys, n_q, n_k, CAUSAL: tl.constexpr):
    """Set scores (block_q, block_k) of keys that a row may not see to -inf."""
    s = tl.where(keys[None, :] < n_k, s, float("-inf"))
    if CAUSAL:
        last = rows + n_k - n_q  # the last key that each row sees
        s = tl.where(keys[None, :] <= last[:, None], s, float("-inf"))
    return s


@triton.jit
def add_keys(m, l_sum, acc, s, v_tile):
    """Return the three notes after one more tile of scores (block_q, block_k)."""
    m_new = tl.maximum(m, tl.max(s, 1))
    m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # a row without a key
    alpha = tl.exp(m - m_safe)
    p = tl.exp(s - m_safe[:, None])
    l_sum = l_sum * alpha + tl.sum(p, 1)
    acc = acc * alpha[:, None]
    acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
    return m_new, l_sum, acc


# %% ex-8-2b
@triton.jit
def split_kernel(
    q, k, v, o, lse, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    k += head * n_k * HEAD_DIM
    v += head * n_k * HEAD_DIM
    o += head * n_q * HEAD_DIM
    lse += head * n_q
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
    m = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_sum = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    end = n_k
    if CAUSAL:
        end = tl.minimum(n_k, (tile + 1) * BLOCK_Q + n_k - n_q)
    # boundary: where the first tile begins that needs a mask; then the two loops
    ### BEGIN SOLUTION
    seen = n_k  # how many keys every row of this tile sees
    if CAUSAL:
        seen = tl.minimum(n_k, tl.maximum(tile * BLOCK_Q + n_k - n_q + 1, 0))
    boundary = seen // BLOCK_K * BLOCK_K
    for start in range(0, boundary, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        m, l_sum, acc = add_keys(m, l_sum, acc, s, v_tile)
    for start in range(boundary, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = hide(s, rows, keys, n_q, n_k, CAUSAL)
        m, l_sum, acc = add_keys(m, l_sum, acc, s, v_tile)
    ### END SOLUTION
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    store_tile(o, acc / l_safe[:, None], rows, n_q, HEAD_DIM)
    tl.store(lse + rows, m + tl.log(l_safe), mask=rows < n_q)


def split_attention(q, k, v, *, causal=False, block_q=64, block_k=64):
    """Return o (B, H, n_q, d) and lse (B, H, n_q), float32."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n_q, d = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h, n_q), dtype=torch.float32, device=q.device)
    split_kernel[(triton.cdiv(n_q, block_q), b * h)](
        q, k, v, o, lse, n_q, k.shape[2], d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k, CAUSAL=causal,
    )
    return o, lse


# %% check-8-2b
check(split_attention)

# %% progress
progress()
