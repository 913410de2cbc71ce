# %% title [markdown]
# # 10 · Decode: exercises
#
# Run a cell with Shift+Enter.

# %% imports
import torch
import torch.nn.functional as F

from course_lib import check, hint, progress

# %% about-10-1 [markdown]
# ## 10.1 · How many queries share a loaded byte? (★, 8 minutes)
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
# ## 10.2 · Append a token (★, 8 minutes)
#
# A **static cache** has room for `n_max` rows and never moves. `lengths[b]` of them are filled; what
# lies behind is left over from another request. The newest token of each sequence comes with one row
# of K and one of V.
#
# 1. Write `k_new` and `v_new` into the caches, *in place*, each sequence at its own position.
# 2. Return what the newest query sees: all that its sequence has by now, the new row included.
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
# ## 10.3 · Decode in parts (★★, 12 minutes)
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

# %% about-10-4 [markdown]
# ## 10.4 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(packed_decode)`.


# %% ex-10-4
def packed_decode(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-10-4
check(packed_decode)

# %% about-10-5 [markdown]
# ## 10.5 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(decode_splits)`.


# %% ex-10-5
def decode_splits(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-10-5
check(decode_splits)

# %% about-10-6 [markdown]
# ## 10.6 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(merge_splits)`.


# %% ex-10-6
def merge_splits(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-10-6
check(merge_splits)

# %% about-10-7 [markdown]
# ## 10.7 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(ragged_decode)`.


# %% ex-10-7
def ragged_decode(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-10-7
check(ragged_decode)

# %% about-10-star [markdown]
# ## 10★ · A tree of drafts (★★★, 20 minutes)
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
# The check counts: K and V are read once for all drafts.


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
