# %% title [markdown]
# # 08 · Make it fast: exercises
#
# Four exercises, about 40 minutes. You need lesson 08, and your kernel from 7.4. No GPU.
#
# | | you write | minutes |
# |---|---|---|
# | 8.1 | a rule that picks tiles from x-rays | 10 |
# | 8.2a | a prediction: tiles loaded, tiles masked | 5 |
# | 8.2b | the loop in two parts: only boundary tiles are masked | 10 |
# | 8.3 | the first half of the backward pass: delta and dV | 15 |
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
# ## 8.1 · Choose tiles by x-ray (★★, 10 minutes)
#
# The compiler knows what each choice of tiles costs, and it needs no GPU. The record `xray_tiles`
# holds what it made of one kernel (rung 3 of the ladder, float16, causal) for three GPUs. A row is
# one choice:

# %% one-row
for name, value in load_measurements("xray_tiles")["rows"][0].items():
    print(f"{name:14}{value}")

# %% what-they-mean [markdown]
# `fits`: a block of this GPU can get the shared memory. `stack_bytes`: bytes a thread that spilled
# out of registers. `tensor_core`: tensor-core instructions in the machine code (on a T4 this
# compiler makes none, whatever the tiles). `blocks_per_sm`: how many programs one SM holds at once.
#
# `choose_tiles(rows)` gets the rows of one GPU and one `head_dim`, in any order, and returns the
# choice to try first, as `(block_q, block_k, num_warps, num_stages)`. Each row is a dict with the
# names printed above, so `row["blocks_per_sm"]` is a number. This is the rule:
#
# 1. It must fit.
# 2. It must not spill.
# 3. It must use tensor cores, if any row of the list does.
# 4. Of what is left, keep those with at least two blocks on an SM, if there are any: one computes
#    while another waits for its tiles.
# 5. Of these, the most query rows: K and V are loaded once per tile of queries.
# 6. Still equal? The most keys, then the most stages (tiles on their way at once), then the fewest
#    registers.
#
# The rule says where to begin, not who wins: the last word has a clock.


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
# **8.2a · Predict (★, 5 minutes).** One head, `n` queries and `n` keys, causal. `n` is a multiple
# of `block_q` and of `block_k`, and both are powers of two. Return two numbers:
#
# 1. how many tiles of keys are **loaded**, over all tiles of queries: those in which at least one
#    row sees at least one key;
# 2. how many of these must be **masked**: at least one row does not see at least one key.
#
# A tile can be as small as one query or one key. Query `i` sees the keys `0` to `i`. Example: `n = 16` in tiles of 4 × 4 gives `(10, 4)`: 10 of 16
# tiles, 62.5 %, are loaded, and only the 4 on the diagonal need a mask.


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
# they make on whole tiles of scores (their mask is one comparison and one `tl.where`). Rung 3 masks
# every tile, rung 4 only boundary tiles.

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
# **8.2b · Split the loop (★★, 10 minutes).** Start from your 7.4. The loop over the keys becomes
# two, in either order (a helper that you call twice will do as well):
#
# - from 0 to `boundary`: tiles that *every* row of this program sees whole. No mask at all, not
#   even for keys past the end: there are none here.
# - from `boundary` to `end`: the rest, with the mask.
#
# `boundary` is a multiple of `BLOCK_K`. If the call is not causal, only a short last tile has to be
# masked. If it is, the program's **first** row decides: it sees the fewest keys. The mask is
# aligned at the end: query `i` sees key `j` if `j <= i + n_k - n_q`.
#
# Given are `load_tile` and `store_tile` as in lesson 07, `hide`, which is the whole mask, and
# `add_keys`, the seven lines of 7.2 with the guard of 7.4. The check looks at the results, at the
# loads (Q once, K and V once per visited tile, as in 7.4), and at the comparisons that each program
# makes on a tile of scores. `input_precision="ieee"` in every `tl.dot`, as before.


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

# %% about-8-3 [markdown]
# ## 8.3 · What lse buys: delta and dV (★★, 15 minutes)
#
# Training needs gradients. Let `do` be the gradient of the loss by `o`: one number for each number
# of `o`. The backward pass begins with two things:
#
# $$\delta_i = \sum_c dO_{ic}\, O_{ic} \qquad\qquad
# dV = P^T dO, \quad P_{ij} = e^{S_{ij} - \mathrm{lse}_i}$$
#
# - `delta` is one number per query. The gradients of Q and K need it.
# - `dV` needs the weights P. Nobody stored them, and nobody has to: `lse` is one number per query,
#   and with it each tile of P is computed again and thrown away again (exercise 7.5).
#
# In `dv_kernel` a program owns one tile of **keys** and walks over the queries. So it stores its
# tile of dV once, and no program adds to another's.
#
# The scores stand **transposed** here, `(block_k, block_q)`: then P has the shape that `tl.dot`
# wants, and nothing computed is transposed afterwards. One line is given.
#
# (On Hopper a `tl.dot` of a transposed product has come out wrong: Triton's
# [issue 6124](https://github.com/triton-lang/triton/issues/6124).)
#
# Write
# - in `delta_kernel`: `delta_row`, (block_q,);
# - in `dv_kernel`: `first`, where the loop over the queries begins if the call is causal: with the
#   first query that sees any key of this tile, or where that query's tile begins: both are right,
#   for no tile of queries is loaded that sees nothing. It is at least 0, and 0 if not causal;
#   then, in the loop, `p` with 0 where a query does not see a key, and the step of `dv_tile`.
#
# The check counts: K and O are loaded once, `q` and `lse` once for each tile of keys that they see,
# `do` once more for delta; `delta` and `dv` are stored once. `input_precision="ieee"`, as before.
#
# Two traps. A row that sees no key has `lse` = -inf: compute `p` first and set what is hidden to 0
# *afterwards*, because exp(-inf - (-inf)) is NaN. And with `causal`, query `i` sees key `j` if
# `j <= i + n_k - n_q`, as always.


# %% ex-8-3
@triton.jit
def delta_kernel(
    o, do, delta, n_q,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr,
):
    head = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (block_q,)
    o_tile = load_tile(o + head * n_q * HEAD_DIM, rows, n_q, HEAD_DIM).to(tl.float32)
    do_tile = load_tile(do + head * n_q * HEAD_DIM, rows, n_q, HEAD_DIM).to(tl.float32)
    ### BEGIN SOLUTION
    delta_row = tl.sum(o_tile * do_tile, 1)
    ### END SOLUTION
    tl.store(delta + head * n_q + rows, delta_row, mask=rows < n_q)


@triton.jit
def dv_kernel(
    q, k, lse, do, dv, n_q, n_k, scale,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_q * HEAD_DIM
    k += head * n_k * HEAD_DIM
    lse += head * n_q
    do += head * n_q * HEAD_DIM
    dv += head * n_k * HEAD_DIM
    keys = tile * BLOCK_K + tl.arange(0, BLOCK_K)  # (block_k,)
    k_tile = load_tile(k, keys, n_k, HEAD_DIM)  # (block_k, head_dim)
    dv_tile = tl.zeros((BLOCK_K, HEAD_DIM), tl.float32)
    first = 0
    if CAUSAL:
        ### BEGIN SOLUTION
        first = tl.maximum(tile * BLOCK_K - (n_k - n_q), 0) // BLOCK_Q * BLOCK_Q
        ### END SOLUTION
    for start in range(first, n_q, BLOCK_Q):
        rows = start + tl.arange(0, BLOCK_Q)  # (block_q,)
        q_tile = load_tile(q, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
        do_tile = load_tile(do, rows, n_q, HEAD_DIM)  # (block_q, head_dim)
        lse_row = tl.load(lse + rows, mask=rows < n_q, other=float("inf"))  # (block_q,)
        s = tl.dot(k_tile, tl.trans(q_tile), input_precision="ieee") * scale  # (block_k, block_q)
        ### BEGIN SOLUTION
        p = tl.exp(s - lse_row[None, :])
        if CAUSAL:
            seen = keys[:, None] <= (rows + n_k - n_q)[None, :]
            p = tl.where(seen, p, 0.0)
        dv_tile += tl.dot(p.to(do_tile.dtype), do_tile, input_precision="ieee")
        ### END SOLUTION
    store_tile(dv, dv_tile, keys, n_k, HEAD_DIM)


def delta_and_dv(q, k, o, lse, do, *, causal=False, block_q=64, block_k=64):
    """Return delta (B, H, n_q), float32, and dv (B, H, n_k, d) in k's dtype.

    q, o, do (B, H, n_q, d), k (B, H, n_k, d), lse (B, H, n_q), float32.
    """
    q, k, o, lse, do = (x.contiguous() for x in (q, k, o, lse, do))
    b, h, n_q, d = q.shape
    n_k = k.shape[2]
    delta = torch.empty_like(lse)
    dv = torch.empty_like(k)
    delta_kernel[(triton.cdiv(n_q, block_q), b * h)](
        o, do, delta, n_q, HEAD_DIM=d, BLOCK_Q=block_q,
    )
    dv_kernel[(triton.cdiv(n_k, block_k), b * h)](
        q, k, lse, do, dv, n_q, n_k, d**-0.5,
        HEAD_DIM=d, BLOCK_Q=block_q, BLOCK_K=block_k, CAUSAL=causal,
    )
    return delta, dv


# %% check-8-3
check(delta_and_dv)

# %% progress
progress()
