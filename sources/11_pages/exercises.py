# %% title [markdown]
# # 11 · Pages: exercises
#
# Run a cell with Shift+Enter.

# %% imports
import torch
import triton
import triton.language as tl

from course_lib import check, hint, progress

# %% about-11-1 [markdown]
# ## 11.1 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(page_waste)`.


# %% ex-11-1
def page_waste(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-11-1
check(page_waste)

# %% about-11-2 [markdown]
# ## 11.2 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(gather_pages)`.


# %% ex-11-2
def gather_pages(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-11-2
check(gather_pages)

# %% about-11-3 [markdown]
# ## 11.3 · Decode over pages (★★★, 30 minutes)
#
# 10.7's kernel over a cache that lies in pages. `k_pages` and `v_pages` are
# `(n_pages, H_kv, page_size, d)`, one pool for all sequences. Row `b` of the table, `(B, max_pages)`,
# says where sequence `b` is: token `t` stands in slot `t % page_size` of page
# `table[b, t // page_size]`. Nothing else is new: where a row lies is looked up *before* the tile is
# loaded, and what is done with it does not change.
#
# Each program takes one key head of one sequence, all its keys, and the heads of the group as the
# rows of one tile, as in 10.4. The recurrence is given; you write
# - the address of each key's row. It is a sum: `page * page_stride` numbers to the page,
#   `head * head_stride` to the key head's slots in it, and `slot_stride` from slot to slot. The
#   pools of K and V have the same strides. Row `b` of the table begins at `b * table_stride`;
# - the two tiles, by `load_rows`, and the scores, masked;
# - the two stores, for a sequence without any key too: its `o` is 0 and its `lse` is -inf.
#
# Take care of
# - **sizes.** `BLOCK_K` says how many keys a tile has, `PAGE_SIZE` how many a page has. Neither
#   needs to divide the other, so a tile may lie on many pages, or in the middle of one.
# - **garbage.** Table entries behind a sequence's last page are leftovers, pages that may not even
#   exist. Slots behind its last token hold infinity here. Load neither K nor V by them.
# - **large pools.** A pool of 40 GB has 20 billion numbers, and `page * page_stride` is int32 if
#   `page` is: `page.to(tl.int64)`. (The check's pools are too small to show it.)
#
# Counted: K and V are loaded once, from the pages themselves (a copy that lies in one piece would
# read and write the whole cache, at each token); and one entry of the table a key, at most.
#
# Example: `page_size` 16, a row `[7, 2, ...]`, 20 tokens. Token 17 is in slot 1 of page 2.

# %% given-tiles
@triton.jit
def load_tile(base, rows, n_rows, HEAD_DIM: tl.constexpr):
    """Load rows of a contiguous (n_rows, head_dim) matrix; past its end: 0."""
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    ptrs = base + rows[:, None] * HEAD_DIM + cols[None, :]
    return tl.load(ptrs, mask=rows[:, None] < n_rows, other=0.0)


@triton.jit
def load_rows(base, at, there, HEAD_DIM: tl.constexpr):
    """Load rows that begin ``at`` (rows,) numbers behind base; 0 where not ``there`` (rows,)."""
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    return tl.load(base + at[:, None] + cols[None, :], mask=there[:, None], other=0.0)


@triton.jit
def store_tile(base, tile, rows, n_rows, HEAD_DIM: tl.constexpr):
    """Store rows of a contiguous (n_rows, head_dim) matrix; none past its end."""
    cols = tl.arange(0, HEAD_DIM)  # (head_dim,)
    ptrs = base + rows[:, None] * HEAD_DIM + cols[None, :]
    tl.store(ptrs, tile.to(base.dtype.element_ty), mask=rows[:, None] < n_rows)


# %% ex-11-3
@triton.jit
def paged_kernel(
    q, k_pages, v_pages, table, lengths, o, lse, scale,
    page_stride, head_stride, slot_stride, table_stride,
    KV_HEADS: tl.constexpr, PAGE_SIZE: tl.constexpr, GROUP: tl.constexpr,
    ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One program: one key head of one sequence, and all query heads that share it."""
    kv_head = tl.program_id(0)  # of all B * H_kv
    batch, head = kv_head // KV_HEADS, kv_head % KV_HEADS
    packed = tl.arange(0, ROWS)  # (rows,), of which GROUP are heads
    q += kv_head * GROUP * HEAD_DIM
    o += kv_head * GROUP * HEAD_DIM
    lse += kv_head * GROUP
    q_tile = load_tile(q, packed, GROUP, HEAD_DIM)  # (rows, head_dim)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    l_sum = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    length = tl.load(lengths + batch)
    for start in range(0, length, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)  # (block_k,)
        ### BEGIN SOLUTION
        there = keys < length
        page = tl.load(table + batch * table_stride + keys // PAGE_SIZE, mask=there, other=0)
        at = page.to(tl.int64) * page_stride + head * head_stride
        at += keys % PAGE_SIZE * slot_stride  # (block_k,)
        k_tile = load_rows(k_pages, at, there, HEAD_DIM)  # (block_k, head_dim)
        v_tile = load_rows(v_pages, at, there, HEAD_DIM)  # (block_k, head_dim)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale
        s = tl.where(there[None, :], s, float("-inf"))  # (rows, block_k)
        ### END SOLUTION
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        l_sum = l_sum * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
        m = m_new
    ### BEGIN SOLUTION
    l_safe = tl.where(l_sum == 0.0, 1.0, l_sum)
    store_tile(o, acc / l_safe[:, None], packed, GROUP, HEAD_DIM)
    tl.store(lse + packed, m + tl.log(l_safe), mask=packed < GROUP)
    ### END SOLUTION


def paged_decode(q, k_pages, v_pages, table, lengths, *, block_k=64):
    """q (B, H, 1, d), pages (n_pages, H_kv, page_size, d) -> o like q, lse (B, H, 1), float32.

    table (B, max_pages), int32 or int64; lengths (B,), int32. k_pages and v_pages have the same
    strides, any but that of a row's numbers, which is 1; so has the table.
    """
    q = q.contiguous()
    b, h, _, d = q.shape
    _, kv_heads, page_size, _ = k_pages.shape
    o = torch.empty_like(q)
    lse = torch.empty((b, h, 1), dtype=torch.float32, device=q.device)
    paged_kernel[(b * kv_heads,)](
        q, k_pages, v_pages, table, lengths, o, lse, d**-0.5,
        *k_pages.stride()[:3], table.stride(0),
        KV_HEADS=kv_heads, PAGE_SIZE=page_size, GROUP=h // kv_heads,
        ROWS=16, HEAD_DIM=d, BLOCK_K=block_k,
    )
    return o, lse


# %% check-11-3
check(paged_decode)

# %% about-11-4 [markdown]
# ## 11.4 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(PagePool)`.


# %% ex-11-4
def PagePool(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-11-4
check(PagePool)

# %% about-11-5 [markdown]
# ## 11.5 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(shared_prefix)`.


# %% ex-11-5
def shared_prefix(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-11-5
check(shared_prefix)

# %% about-11-star [markdown]
# ## 11★ · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(keep_rows)`.


# %% ex-11-star
def keep_rows(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-11-star
check(keep_rows)

# %% progress
progress()
