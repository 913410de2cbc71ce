# %% title [markdown]
# # 10 · Decode: exercises
#
# You write what a server runs for every token: the count that says what it waits for, a cache that
# grows, keys dealt to several programs and merged; first in PyTorch, then as kernels.
#
# | | | minutes |
# |---|---|---|
# | 10.1 | two regimes: FLOPs for each byte | 8 |
# | 10.2 | a token is appended, and looks back | 8 |
# | 10.3 | the keys in parts, merged, in PyTorch | 12 |
# | 10.4 | a group's heads as the rows of one tile | 20 |
# | 10.5 | the kernel of the parts | 25 |
# | 10.6 | the kernel that merges them | 12 |
# | 10.7 | sequences of any length in one launch | 15 |
# | 10★ | a tree of drafts | 20 |
#
# From 10.2 on the check counts bytes. Where the cache is read: each of its bytes once, however many
# heads share it. In PyTorch a quarter more is allowed, and what is read of `q` is not counted.
#
# Stuck? `hint(attention_intensity)` gives a hint, three at most for each exercise. `course catch-up
# 10.5`, in a terminal, fills in 10.4 for you, so that nobody stops here.

# %% imports
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from course_lib import check, hint, progress

# %% about-10-1 [markdown]
# ## 10.1 · How many queries share a loaded byte? (8 minutes)
#
# Attention alone, one layer: how many FLOPs are there for each byte that *must* move? Below the
# ridge of a GPU (295 for an H100) memory is the limit, above it arithmetic. Prefill and decode are
# the same formula with other numbers.
#
# - `batch` sequences, each with `n_q` newest tokens (1, or drafts; in prefill all of them) and
#   `n_k` keys to look at; `heads` query heads, `kv_heads` key/value heads; `b` bytes a number.
# - Of the `n_k` keys, the first `shared_prefix` are the *same* for all sequences (a system prompt)
#   and are kept once. The others belong to one sequence each.
# - FLOPs: every query with each of its `n_k` keys, `4 * head_dim` (no discount for causal).
# - Bytes, the least: `q` read and `o` written once; each row of K and V that exists read once, for
#   all who share it. Scores are not written down, and `lse` is left aside.


# %% ex-10-1
def attention_intensity(
    n_q, n_k, *, batch, heads, kv_heads, head_dim, b, shared_prefix=0
):
    """Return FLOP per byte of attention alone, a float."""
    ### BEGIN SOLUTION
    query_rows = batch * heads * n_q
    cached_rows = kv_heads * (shared_prefix + batch * (n_k - shared_prefix))
    flops = 4 * query_rows * n_k * head_dim
    n_bytes = 2 * (query_rows + cached_rows) * head_dim * b
    return flops / n_bytes
    ### END SOLUTION


# %% check-10-1
check(attention_intensity)

# %% about-10-2 [markdown]
# ## 10.2 · Append a token (8 minutes)
#
# A **static cache** has room for `n_max` rows and never moves. `lengths[b]` of them are filled; what
# lies behind is left over from another request: finite numbers that mean nothing here. The newest token of each sequence comes with one row
# of K and one of V.
#
# 1. Write `k_new` and `v_new` into the caches, *in place*, each sequence at its own position.
# 2. Return what the newest query sees, all that its sequence has by now, the new row included: `o`,
#    a tensor of its own, no view of a cache.
#
# `lengths` stays as it is: the caller counts. Every query head has a key head of its own here.
#
# The check looks at the caches afterwards, and counts: only the new rows are written, and no copy of
# the cache is made (`torch.cat` makes one at each token).
#
# `torch.nn.functional.scaled_dot_product_attention` (`F.` here) may do the attention. One of its
# switches is a trap when there is one query: which key does query 0 of a causal mask see, if the mask
# is aligned at the top left?


# %% ex-10-2
def append_token(q, k_new, v_new, k_cache, v_cache, lengths):
    """Write one row a sequence into the caches, and attend with the newest query.

    q, k_new, v_new (B, H, 1, d); k_cache, v_cache (B, H, n_max, d); lengths (B,), whole numbers
    below n_max. Returns o (B, H, 1, d).
    """
    ### BEGIN SOLUTION
    sequences = torch.arange(len(lengths))
    k_cache[sequences, :, lengths] = k_new[:, :, 0]
    v_cache[sequences, :, lengths] = v_new[:, :, 0]
    seen = torch.arange(k_cache.shape[2]) <= lengths[:, None]  # (B, n_max)
    return F.scaled_dot_product_attention(
        q, k_cache, v_cache, attn_mask=seen[:, None, None, :]
    )
    ### END SOLUTION


# %% check-10-2
check(append_token)

# %% about-10-3 [markdown]
# ## 10.3 · Decode in parts (12 minutes)
#
# One query leaves most of a GPU idle, so the *keys* are split, and the parts are merged. This is the
# merge of lesson 03 again, but a part is kept in another form: its `o` is **divided already**, and
# one number, its `lse`, says how much all its weights amounted to.
#
# $$\mathrm{lse} = \ln \sum_i e^{\mathrm{lse}_i} \qquad\qquad
# o = \sum_i e^{\mathrm{lse}_i - \mathrm{lse}}\; o_i$$
#
# - Split i has keys `i * size` to `(i + 1) * size`, with `size = ceil(n_k / splits)`. The last ones
#   may be short, or **empty**: then `o` is 0 and `lse` is -inf.
# - `H / H_kv` neighbouring query heads share a key head: query head h reads key head
#   `h // (H // H_kv)`.
#
# The check counts: K and V are read once, not once for each head of a group, and nothing as large is
# made (`repeat_interleave` makes it). The heads of a group are rows of one matrix.


# %% ex-10-3
def split_decode(q, k, v, splits):
    """Attend in parts, and merge them.

    q (B, H, 1, d); k, v (B, H_kv, n_k, d). Returns o_parts (splits, B, H, 1, d), lse_parts
    (splits, B, H, 1), and merged o (B, H, 1, d), lse (B, H, 1); natural logarithms, q's dtype.
    """
    ### BEGIN SOLUTION
    batch, heads, _, d = q.shape
    kv_heads, n_k = k.shape[1], k.shape[2]
    size = -(-n_k // splits)
    rows = q.reshape(batch, kv_heads, heads // kv_heads, d) / d**0.5
    o_parts, lse_parts = [], []
    for i in range(splits):
        keys = slice(i * size, (i + 1) * size)
        s = rows @ k[:, :, keys].mT  # (B, H_kv, group, size)
        lse = torch.logsumexp(s, -1)  # of no keys: -inf
        o = torch.softmax(s, -1) @ v[:, :, keys]  # of no keys: 0
        o_parts.append(o.reshape(batch, heads, 1, d))
        lse_parts.append(lse.reshape(batch, heads, 1))
    o_parts, lse_parts = torch.stack(o_parts), torch.stack(lse_parts)

    lse = torch.logsumexp(lse_parts, 0)
    weights = torch.exp(lse_parts - lse)  # (splits, B, H, 1), they add up to 1
    o = (weights[..., None] * o_parts).sum(0)
    return o_parts, lse_parts, o, lse
    ### END SOLUTION


# %% check-10-3
check(split_decode)

# %% about-kernels [markdown]
# ## The kernels: 10.4 to 10.7
#
# Four kernels of decode, each with its launcher. There is one new query in each head, so `q` is
# `(B, H, d)`; the cache is `(B, H_kv, n, d)`, and `group = H // H_kv` neighbouring query heads share
# a key head: query head `h` uses key head `h // group`.
#
# | step | new in it | minutes |
# |---|---|---|
# | 10.4 | the heads of a group are the rows of one tile | 20 |
# | 10.5 | the keys are split among programs | 25 |
# | 10.6 | the parts are merged | 12 |
# | 10.7 | sequences of different lengths | 15 |
#
# `load_tile` and `store_tile` are those of lesson 07. The launchers make their tensors contiguous
# and are given. (Whoever writes his own: before a launch PyTorch may copy, convert, scale or pad a
# tensor, and no more. What is padding or hidden, the kernel leaves out; the launcher may not cut it
# off.) In a tensor `(B, H, d)` the heads of key head number `i` (of all `B * H_kv`) are the
# rows `i * group` to `i * group + group - 1`.

# %% given-tiles
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


# %% about-10-4 [markdown]
# ## 10.4 · Pack a group into one tile (20 minutes)
#
# `tl.dot` wants 16 rows, and a head has one query. But all heads of a group need the same K and V:
# let them be the rows of one tile. With one program for each key head of each batch, each cached
# number is loaded **once**, not `group` times.
#
# The tile has `ROWS` = 16 rows, of which the first `GROUP` are heads. The others are idle: they are
# filled with 0, they cost nothing that matters here, and they must not be stored (what would they
# overwrite?).
#
# Write
# - where the group begins in `q`, `o` and `lse`, and its tile of queries, `q_tile`;
# - 7.3's loop over the keys, unchanged: `m`, `l_sum` and `acc`, one for each row; the last tile
#   of keys may be short;
# - the two stores.
#
# Counted: one launch of `B * H_kv` programs; K and V are loaded once, in tiles of `block_k` keys;
# `o` and `lse` are stored once. And `input_precision="ieee"`, as before.
#
# Example: 2 batches, `H = 6`, `H_kv = 2`: four programs, each with three heads in its tile.

# %% ex-10-4
@triton.jit
def packed_kernel(
    q, k, v, o, lse, n, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One program: one key head of one batch, and all query heads that share it."""
    kv_head = tl.program_id(0)  # of all B * H_kv
    packed = tl.arange(0, ROWS)  # (rows,), of which GROUP are heads
    k += kv_head * n * HEAD_DIM
    v += kv_head * n * HEAD_DIM
    ### BEGIN SOLUTION
    q += kv_head * GROUP * HEAD_DIM
    o += kv_head * GROUP * HEAD_DIM
    lse += kv_head * GROUP
    q_tile = load_tile(q, packed, GROUP, HEAD_DIM)  # (rows, head_dim)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    l_sum = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    ### END SOLUTION
    for start in range(0, n, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, n, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, n, HEAD_DIM)  # (block_k, head_dim)
        ### BEGIN SOLUTION
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n, s, float("-inf"))  # (rows, block_k)
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
        ### END SOLUTION
    ### BEGIN SOLUTION
    store_tile(o, acc / l_sum[:, None], packed, GROUP, HEAD_DIM)
    tl.store(lse + packed, m + tl.log(l_sum), mask=packed < GROUP)
    ### END SOLUTION


def packed_decode(q, k, v, *, block_k=64):
    """q (B, H, d), k and v (B, H_kv, n, d) -> o (B, H, d) in q's dtype, lse (B, H), float32."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, d = q.shape
    _, kv_heads, n, _ = k.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h), dtype=torch.float32, device=q.device)
    packed_kernel[(b * kv_heads,)](
        q, k, v, o, lse, n, d**-0.5,
        GROUP=h // kv_heads, ROWS=16, HEAD_DIM=d, BLOCK_K=block_k,
    )
    return o, lse


# %% check-10-4
check(packed_decode)

# %% about-10-5 [markdown]
# ## 10.5 · Split the keys (25 minutes)
#
# One sequence, one key head: 10.4 starts *one* program, and a GPU has a hundred processors and more.
# So the keys are split: program `(split, kv_head)` of the grid takes one share of the keys and
# returns a **part**, its own `o` and its own `lse`, as if there were no other keys. The shares are
# those of 10.3: `share = ceil(n / splits)`, and split `i` has the keys from `i * share` to
# `(i + 1) * share`, as far as there are any.
#
# Three splits want care:
# - **a partial one.** `share` need not be a multiple of `BLOCK_K`. The last tile of a split reaches
#   into its neighbour's keys: they exist, but they count for the neighbour.
# - **the last one.** It may be shorter: 7 keys in 5 splits are 2, 2, 2, 1 and 0.
# - **an empty one.** Its loop makes no step, so `m` is -inf and `l_sum` is 0. Its part is the empty
#   state: `o = 0` and `lse = -inf`, not NaN.
#
# Begin as in your 10.4, then write where a split begins and ends (`first` and `end`), the loop, the two
# results, and the row at which the part begins. The parts are `(splits, B, H, d)` and `(splits, B, H)`, float32: all heads
# of split 0, then all of split 1. (`tl.num_programs(1)` is `B * H_kv`.) Each `o` is divided by its
# own sum, `lse` is natural.
#
# Counted: one launch of `splits * B * H_kv` programs; each number of K and V is loaded once in all,
# each part is stored once; a program without keys loads none.

# %% ex-10-5
@triton.jit
def split_kernel(
    q, k, v, o_parts, lse_parts, n, share, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One program: one share of the keys of one key head, and all query heads that share it."""
    split = tl.program_id(0)
    kv_head = tl.program_id(1)  # of all B * H_kv
    packed = tl.arange(0, ROWS)  # (rows,), of which GROUP are heads
    k += kv_head * n * HEAD_DIM
    v += kv_head * n * HEAD_DIM
    ### BEGIN SOLUTION
    q += kv_head * GROUP * HEAD_DIM
    q_tile = load_tile(q, packed, GROUP, HEAD_DIM)  # (rows, head_dim)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    l_sum = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    first = split * share
    end = tl.minimum(first + share, n)  # an empty split: end <= first
    for start in range(first, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, end, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, end, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < end, s, float("-inf"))  # (rows, block_k)
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    part = (split * tl.num_programs(1) + kv_head) * GROUP  # its first row
    store_tile(o_parts + part * HEAD_DIM, acc / l_safe[:, None], packed, GROUP, HEAD_DIM)
    tl.store(lse_parts + part + packed, m + tl.log(l_safe), mask=packed < GROUP)
    ### END SOLUTION


def decode_splits(q, k, v, splits, *, block_k=64):
    """Return the parts of q (B, H, d) over k and v (B, H_kv, n, d), all float32.

    o_parts (splits, B, H, d), lse_parts (splits, B, H); a split without keys has 0 and -inf.
    """
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, d = q.shape
    _, kv_heads, n, _ = k.shape
    o_parts = torch.empty((splits, b, h, d), dtype=torch.float32, device=q.device)
    lse_parts = torch.empty((splits, b, h), dtype=torch.float32, device=q.device)
    split_kernel[(splits, b * kv_heads)](
        q, k, v, o_parts, lse_parts, n, triton.cdiv(n, splits), d**-0.5,
        GROUP=h // kv_heads, ROWS=16, HEAD_DIM=d, BLOCK_K=block_k,
    )
    return o_parts, lse_parts


# %% check-10-5
check(decode_splits)

# %% about-10-6 [markdown]
# ## 10.6 · Merge the parts (12 minutes)
#
# A second kernel makes one `o` and one `lse` of the parts, one program for each head of each batch.
# `exp(lse_i)` is the sum of all exponentials that part `i` has seen, so part `i` weighs
# `exp(lse_i - lse)`. As always the maximum goes first: with `m` the largest `lse_i`, the weights are
# `exp(lse_i - m)`, and `total` is their sum. `o` is the weighted sum of the parts divided by
# `total`, and `lse` is `m + ln(total)`.
#
# - `SPLITS` is the next power of two: the places past the last split must weigh nothing.
# - A part may be empty (`lse_i = -inf`): it weighs 0, whatever stands in its `o`, NaN included, and
#   0 times NaN is NaN: mask its load, or choose with `tl.where` what is multiplied. (Loading an
#   empty part is allowed.)
# - All parts may be empty. Then `o = 0` and `lse = -inf`, without a NaN on the way: subtract
#   `m_safe`, 0 in place of -inf, and divide by 1.
# - The `lse_i` are natural logarithms. Whoever likes `tl.exp2` needs `log2(e)`.
#
# Counted: each part that has keys, and each `lse_i`, is loaded once, `o` and `lse` are stored once.
#
# Example: parts with `lse` 0 and ln 3 weigh 1/4 and 3/4, and the merged `lse` is ln 4.

# %% ex-10-6
@triton.jit
def merge_kernel(
    o_parts, lse_parts, o, lse, n_splits, HEAD_DIM: tl.constexpr, SPLITS: tl.constexpr
):
    """One program: the parts of one head of one batch, weighed and added up."""
    row = tl.program_id(0)  # of all B * H
    rows = tl.num_programs(0)
    splits = tl.arange(0, SPLITS)  # (splits,), of which n_splits are parts
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    at = splits * rows + row  # where each part's number, or row of numbers, stands
    ### BEGIN SOLUTION
    lse_i = tl.load(lse_parts + at, mask=splits < n_splits, other=float("-inf"))
    m = tl.max(lse_i, 0)
    m_safe = tl.where(m == float("-inf"), 0.0, m)
    weights = tl.exp(lse_i - m_safe)  # (splits,)
    total = tl.sum(weights, 0)
    safe = tl.where(total == 0.0, 1.0, total)
    ptrs = o_parts + at[:, None] * HEAD_DIM + cols[None, :]
    o_i = tl.load(ptrs, mask=lse_i[:, None] > float("-inf"), other=0.0)  # (splits, head_dim)
    tl.store(o + row * HEAD_DIM + cols, tl.sum(o_i * weights[:, None], 0) / safe)
    tl.store(lse + row, m + tl.log(safe))
    ### END SOLUTION


def merge_splits(o_parts, lse_parts):
    """o_parts (splits, B, H, d), lse_parts (splits, B, H) -> o (B, H, d), lse (B, H), float32."""
    o_parts, lse_parts = o_parts.contiguous(), lse_parts.contiguous()
    splits, b, h, d = o_parts.shape
    o = torch.empty((b, h, d), dtype=torch.float32, device=o_parts.device)
    lse = torch.empty((b, h), dtype=torch.float32, device=o_parts.device)
    merge_kernel[(b * h,)](
        o_parts, lse_parts, o, lse, splits,
        HEAD_DIM=d, SPLITS=triton.next_power_of_2(splits),
    )
    return o, lse


# %% check-10-6
check(merge_splits)

# %% about-10-7 [markdown]
# ## 10.7 · A ragged batch in one launch (15 minutes)
#
# Requests have different lengths, and their caches have room for the longest: sequence `b` fills
# the first `lengths[b]` rows of its cache, and behind them stands padding: numbers that an older
# request left there, or memory that was never written. The check puts infinity there.
# A weight of 0 does not help: 0 times infinity is NaN. So padding is not loaded at all.
#
# Start from your 10.5 (its end stays as it is); the shares are still those of the whole cache, `share = ceil(n / splits)`.
# New: each program loads the length of *its* sequence (one number, not counted; `kv_head` counts all
# `B * H_kv` key heads, and the launcher tells `KV_HEADS`), and its share ends there. A program whose
# share begins behind the length has nothing to do: it loads no key and stores an empty part. A length
# may be 0.
#
# Counted as in 10.5, with only those keys that are there. `merge_splits(*ragged_decode(...))` is
# then a whole decode step of a ragged batch, in two launches.

# %% ex-10-7
@triton.jit
def ragged_kernel(
    q, k, v, o_parts, lse_parts, lengths, n, share, scale,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One program: one share of one sequence's keys, one key head and all that share it."""
    split = tl.program_id(0)
    kv_head = tl.program_id(1)  # of all B * H_kv
    packed = tl.arange(0, ROWS)  # (rows,), of which GROUP are heads
    k += kv_head * n * HEAD_DIM
    v += kv_head * n * HEAD_DIM
    ### BEGIN SOLUTION
    q += kv_head * GROUP * HEAD_DIM
    q_tile = load_tile(q, packed, GROUP, HEAD_DIM)  # (rows, head_dim)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    l_sum = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    length = tl.load(lengths + kv_head // KV_HEADS)
    first = split * share
    end = tl.minimum(first + share, length)  # nothing to do: end <= first
    for start in range(first, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        k_tile = load_tile(k, keys, end, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_tile(v, keys, end, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < end, s, float("-inf"))  # (rows, block_k)
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    part = (split * tl.num_programs(1) + kv_head) * GROUP  # its first row
    store_tile(o_parts + part * HEAD_DIM, acc / l_safe[:, None], packed, GROUP, HEAD_DIM)
    tl.store(lse_parts + part + packed, m + tl.log(l_safe), mask=packed < GROUP)
    ### END SOLUTION


def ragged_decode(q, k, v, lengths, splits, *, block_k=64):
    """Return the parts of q (B, H, d) over the first lengths[b] rows of k[b] and v[b], float32.

    k and v (B, H_kv, n, d), lengths (B,) int32, from 0 to n; o_parts (splits, B, H, d) and
    lse_parts (splits, B, H); a split without keys has 0 and -inf.
    """
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, d = q.shape
    _, kv_heads, n, _ = k.shape
    o_parts = torch.empty((splits, b, h, d), dtype=torch.float32, device=q.device)
    lse_parts = torch.empty((splits, b, h), dtype=torch.float32, device=q.device)
    ragged_kernel[(splits, b * kv_heads)](
        q, k, v, o_parts, lse_parts, lengths, n, triton.cdiv(n, splits), d**-0.5,
        KV_HEADS=kv_heads, GROUP=h // kv_heads, ROWS=16, HEAD_DIM=d, BLOCK_K=block_k,
    )
    return o_parts, lse_parts


# %% check-10-7
check(ragged_decode)

# %% about-10-star [markdown]
# ## 10★ · A tree of drafts (20 minutes)
#
# Speculative decoding: a small model guesses, the large one checks several guesses at once, for one
# reading of the cache. The guesses form a **tree**: `parents[i]` is the number of the draft that draft
# `i` continues, always smaller than `i`, or `-1` if it continues the cache itself.
#
# ```
# parents = [-1, 0, 0, 1]        cache ── 0 ──┬── 1 ── 3
#                                             └── 2
# ```
#
# The drafts' own K and V rows are the **last n_q** of `k` and `v`; all before them is the cache. Draft
# i sees the whole cache, its ancestors and itself: 3 sees 0, 1, 3, and not 2. What it gets is what it
# would get if it and its ancestors were all there is.
#
# The check counts: K and V are read once for all drafts, at once or tile by tile. (At most 1.25
# times the bytes that they hold; `q` may be read for every tile.)


# %% ex-10-star
def tree_decode(q, k, v, parents):
    """Attend with all drafts of a tree at once.

    q (B, H, n_q, d); k, v (B, H, n_k, d), the drafts last; parents (n_q,), int64, the same tree
    for all sequences. Returns o (B, H, n_q, d).
    """
    ### BEGIN SOLUTION
    n_q, n_k = q.shape[2], k.shape[2]
    seen = torch.eye(n_q, dtype=torch.bool)
    for i, parent in enumerate(parents.tolist()):
        if parent >= 0:  # parents come first, so their rows are done
            seen[i] |= seen[parent]
    mask = torch.ones(n_q, n_k, dtype=torch.bool)
    mask[:, n_k - n_q :] = seen
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    ### END SOLUTION


# %% check-10-star
check(tree_decode)

# %% progress
progress()
