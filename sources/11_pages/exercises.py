# %% title [markdown]
# # 11 · Pages: exercises
#
# You write what a server needs to keep its texts in pages: the count of what is empty, a gather, a
# kernel that follows the table, the pool that says who owns which page, and what of it is shared.
#
# | | | minutes |
# |---|---|---|
# | 11.1 | what pages reserve, and what of it is empty | 8 |
# | 11.2 | a sequence gathered from its pages | 12 |
# | 11.3 | the kernel of decode over pages | 30 |
# | 11.4 | who owns which page | 35 |
# | 11.5 | the longest shared prefix | 15 |
# | 11★ | evict, and keep the sinks | 20 |
#
# Stuck? `hint(page_waste)` gives a hint, three at most for each exercise.

# %% imports
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from course_lib import check, hint, progress

# %% about-11-1 [markdown]
# ## 11.1 · What pages reserve, and what of it is empty (8 minutes)
#
# A cache in **pages** takes a page of `page_size` slots when the next token needs one. How many bytes
# are reserved then, and how many of them are empty? Count, for sequences (the requests' texts so
# far) of given lengths.
#
# - A slot has room for one token: a row of K and a row of V, of `head_dim` numbers each, for each of
#   `kv_heads` K/V heads in each of `layers` layers; `b` bytes a number.
# - A page belongs to one sequence (nothing is shared here), and is reserved whole.
# - A sequence takes a page only when there is a token for it: none for length 0.
# - Wasted is what is reserved and holds no token.
#
# Example: lengths 3, 9 and 14 in pages of 4 take 1, 3 and 4 pages, and 1 + 3 + 2 slots are empty.
# There may be no sequence at all. The list is the caller's: leave it as it is. Bytes are whole
# numbers, and exact; all are below 2**53, so that a float holds them, too.


# %% ex-11-1
def page_waste(lengths, page_size, *, layers, kv_heads, head_dim, b):
    """Return (reserved, wasted) bytes of K and V of all sequences, for a list of lengths."""
    ### BEGIN SOLUTION
    pages = sum(-(-length // page_size) for length in lengths)  # rounded up, each for itself
    slots = pages * page_size
    slot_bytes = 2 * layers * kv_heads * head_dim * b
    return slots * slot_bytes, (slots - sum(lengths)) * slot_bytes
    ### END SOLUTION


# %% check-11-1
check(page_waste)

# %% about-11-2 [markdown]
# ## 11.2 · Gather a sequence from its pages (12 minutes)
#
# All sequences keep their rows in one pool of pages, in whatever page was free at the time. Token `t`
# stands in slot `t % page_size` of page `table[t // page_size]`. So the **logical** order, token after
# token, is in the table alone; the **physical** order, that of the pool, says nothing.
#
# ```
# page_size 4, length 6, table [7, 2, -1, 900]        page 7: t0 t1 t2 t3     page 2: t4 t5 .. ..
# ```
#
# `pages` is `(n_pages, H_kv, page_size, d)`: token `t` of key head `h` is the row
# `pages[table[t // page_size], h, t % page_size]`, `d` numbers.
#
# Return the rows of one sequence in logical order, in a new tensor of `pages`' dtype. (A good kernel
# does not gather: it looks up the table as it goes. That is 11.3.)
#
# - The last page may be full or not; `length` may be 0.
# - Entries of the table behind the last page in use are garbage, numbers of any size: take no row
#   by them.
# - Slots behind the last token hold what an older sequence left there.
# - The pool is written between two calls: remember no rows of an earlier one.
# - The pool is large and not yours. The check counts the bytes that you create: do not copy or
#   reorder the whole pool to get one sequence.


# %% ex-11-2
def gather_pages(pages, table, length):
    """Return rows (H_kv, length, d) of one sequence, token after token.

    pages (n_pages, H_kv, page_size, d), in any memory layout; table (max_pages,), int32 or int64;
    length, an int.
    """
    ### BEGIN SOLUTION
    _, kv_heads, page_size, d = pages.shape
    used = -(-length // page_size)
    own = pages[table[:used].long()]  # (used, H_kv, page_size, d), in logical order
    rows = own.transpose(0, 1).reshape(kv_heads, used * page_size, d)
    return rows[:, :length]
    ### END SOLUTION


# %% check-11-2
check(gather_pages)

# %% about-11-3 [markdown]
# ## 11.3 · Decode over pages (30 minutes)
#
# 10.4's kernel, with 10.7's lengths, over a cache that lies in pages. `k_pages` and `v_pages` are
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
# read and write the whole cache, at each token), in tiles of `BLOCK_K` keys, of which only the last
# is not full, however small the pages are; and one entry of the table a key, at most. The kernel
# looks it up: no launcher works out where each key lies.
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
# ## 11.4 · Who owns which page (35 minutes)
#
# Write the class that gives out the pages. It stores no keys and no values: it says where the next
# token of a sequence goes, and the caller writes it there.
#
# - `PagePool(n_pages, page_size)`: pages `0 .. n_pages - 1`, all free.
# - `append(seq)`: `seq` gets one more token; a name that is not there yet begins a new sequence.
#   Return `(page, slot, copy_from)`: the token goes to `slot` of `page`. Tokens fill a page from slot
#   0 on, and a new page is taken only when the last is full, or another sequence holds it too (below).
# - `fork(parent, child)`: a new sequence `child` begins with all tokens of `parent`. It takes no
#   page: both have the same pages.
# - `free(seq)`: the sequence ends. Pages that nobody else holds are free again, and so is its name.
# - `table(seq)`: its pages, a list in the order of its tokens.
#
# **A page that two sequences hold is never written**, not even in a slot that is still empty. Who
# appends to a shared page that is filled in part gets a page of its own, which takes the place of the
# shared one in its table; `copy_from` is the shared page, and the caller first copies the slots that
# are filled. Otherwise `copy_from` is `None`. Copy nothing that nobody else holds, and no full page.
#
# **A pool that is full says so**: where a page is needed and none is free, `append` raises
# `MemoryError`, and nothing has changed (a new name stays unknown): it may be tried again, later.
#
# Which of the free pages you take is up to you. The check calls your methods in any order, on small
# pools and larger ones, writes tokens as `append` says, reads every sequence back through `table`,
# and counts the pages in use. A name is a text, a number or a tuple; `fork`, `free` and `table` are
# asked of sequences that are there, and a `child` is new. Several pools may be in use at a
# time, of pages of different sizes.
#
# Example: pages of 4. `append("a")` three times fills slots 0, 1 and 2 of a page, say 7. After
# `fork("a", "b")` both tables are `[7]`. `append("b")` is `(3, 3, 7)`: page 3, slot 3, copy from 7
# first. Now `append("a")` is `(7, 3, None)`: nobody else holds page 7 any more.
#
# To see what yours does, step by step, with overwritten tokens marked, run in a new cell:
#
# ```python
# from course_lib.widgets import PageTable
# PageTable.replay(PagePool, [("append", "a", 3), ("fork", "a", "b"), ("append", "b")])
# ```


# %% ex-11-4
class PagePool:
    """Pages for sequences that grow, fork and end; a shared page is never written."""

    def __init__(self, n_pages, page_size):
        """Begin with n_pages free pages of page_size slots, and without a sequence."""
        ### BEGIN SOLUTION
        self.page_size = page_size
        self.unused = list(range(n_pages))
        self.holders = [0] * n_pages  # of each page: how many sequences
        self.tables = {}
        self.lengths = {}
        ### END SOLUTION

    def append(self, seq):
        """Return (page, slot, copy_from) for one more token, or raise MemoryError."""
        ### BEGIN SOLUTION
        length = self.lengths.get(seq, 0)
        table = self.tables.get(seq, [])
        slot = length % self.page_size
        is_shared = slot > 0 and self.holders[table[-1]] > 1
        if (slot == 0 or is_shared) and not self.unused:
            raise MemoryError("no page is free")
        copy_from = None
        if slot == 0:
            table.append(self.take())
        elif is_shared:
            copy_from = table[-1]
            table[-1] = self.take()
            self.let_go(copy_from)
        self.tables[seq] = table
        self.lengths[seq] = length + 1
        return table[-1], slot, copy_from
        ### END SOLUTION

    def fork(self, parent, child):
        """Let child begin with all tokens of parent, on the same pages."""
        ### BEGIN SOLUTION
        self.tables[child] = list(self.tables[parent])
        self.lengths[child] = self.lengths[parent]
        for page in self.tables[child]:
            self.holders[page] += 1
        ### END SOLUTION

    def free(self, seq):
        """End seq; pages that nobody holds any more are free again."""
        ### BEGIN SOLUTION
        for page in self.tables.pop(seq):
            self.let_go(page)
        del self.lengths[seq]
        ### END SOLUTION

    def table(self, seq):
        """Return the pages of seq, in the order of its tokens."""
        ### BEGIN SOLUTION
        return list(self.tables[seq])

    def take(self):
        page = self.unused.pop()
        self.holders[page] = 1
        return page

    def let_go(self, page):
        self.holders[page] -= 1
        if self.holders[page] == 0:
            self.unused.append(page)
        ### END SOLUTION


# %% check-11-4
check(PagePool)

# %% about-11-5 [markdown]
# ## 11.5 · The longest shared prefix (15 minutes)
#
# K and V of a token depend on all tokens before it. So a new request can use a cached page, without
# computing or storing it again, if it begins with the same tokens, **from token 0 on**, up to the end
# of that page. A server keeps what it has cached in a **radix tree**: what requests have in common is
# there once, and an edge holds the tokens up to where two of them part, or one ends.
#
# ```
# cached: 5 8 2 9        tree = {5: ([5, 8, 2], {9: ([9], {}),
#         5 8 2 7 7                              7: ([7, 7], {})}),
#         3 1                    3: ([3, 1], {})}
# ```
#
# A tree is a dict: the next token leads to `(edge, below)`, a list of tokens that begins with that
# token, and the tree behind it (`{}`: nothing goes on). No two edges of a tree begin alike.
#
# How many tokens of `prompt` need not be computed, and how many bytes of cache do they save?
#
# - Pages of `page_size` tokens are shared whole, or not at all. Edges end anywhere, also within pages.
# - A prompt may leave the tree, or end, within an edge. At most a hundred edges follow each other.
#   The tree is the server's: leave it as it is.
# - At least one token of the prompt is computed, whatever is cached: the query of the last token
#   makes the first new one. So if that token completes a page, this page is not shared.
# - `slot_bytes` are the bytes of K and V of one token. The prompt has at least one token.
#
# Example: in pages of 2, the prompt 5 8 2 7 6 finds 4 tokens, 2 pages. The prompt 5 8 2 7 finds as
# many, and shares 1 page: one token must be left.


# %% ex-11-5
def shared_prefix(tree, prompt, page_size, slot_bytes):
    """Return (tokens, saved): how many tokens of the prompt are shared, and their bytes.

    tree, a dict {first token: (edge, below)}; prompt, a list of tokens (int).
    """
    ### BEGIN SOLUTION
    matched = 0
    while matched < len(prompt) and prompt[matched] in tree:
        edge, below = tree[prompt[matched]]
        same = 0
        for cached, token in zip(edge, prompt[matched:]):
            if cached != token:
                break
            same += 1
        matched += same
        if same < len(edge):  # the prompt leaves the tree, or ends, within this edge
            break
        tree = below

    tokens = min(matched, len(prompt) - 1) // page_size * page_size
    return tokens, tokens * slot_bytes
    ### END SOLUTION


# %% check-11-5
check(shared_prefix)

# %% about-11-star [markdown]
# ## 11★ · Evict, and keep the sinks (20 minutes)
#
# A text may go on for ever; a cache may not. To keep only the newest rows, a window, is not enough:
# Xiao et al. (2023, "StreamingLLM") found that models put much weight on the first few tokens,
# whatever they say, and break down when these **sinks** are evicted. So the first `sinks` rows stay,
# and the last `window` rows; what lies between them goes.
#
# **Positions.** A rotary embedding rotates each query and key by its position, and the score then
# depends on the distance. In the text, the distance to the sinks grows beyond anything the model was
# trained for. So positions are those **within what is kept**: of text positions 0 1 2 3 96 97 98 99, the
# last is the query's own and stands at 7. That is why `k` is cached *before* it is rotated.
#
# 1. Choose the rows that stay, `kept`, in the order of the text. The newest row belongs to the query's
#    own token. While there are no more than `sinks + window` rows, all stay.
# 2. Rotate their keys and the query by these positions, with `rotate`, which is given.
# 3. Attend (`torch.nn.functional.scaled_dot_product_attention` may do it).
#
# `sinks` may be 0; `window` is at least 1. Evicted rows hold NaN in the check: do not read them, for a
# weight of 0 does not help.

# %% given-rotate
def rotate(x, positions):
    """Rotate rows x (..., n, d) by positions (n,): number i of a row turns with number i + d/2."""
    half = x.shape[-1] // 2
    speeds = 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    angles = positions[:, None] * speeds  # (n, d/2)
    a, b = x[..., :half], x[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


# %% ex-11-star
def keep_rows(q, k, v, sinks, window):
    """Attend to the rows that stay, and say which they are.

    q (B, H, 1, d) and k (B, H, n, d), not rotated yet; v (B, H, n, d). Returns o (B, H, 1, d) and
    kept, a list or tensor of row numbers.
    """
    ### BEGIN SOLUTION
    n = k.shape[2]
    kept = [row for row in range(n) if row < sinks or row >= n - window]
    places = torch.arange(len(kept))
    q, k = rotate(q, places[-1:]), rotate(k[:, :, kept], places)
    return F.scaled_dot_product_attention(q, k, v[:, :, kept]), kept
    ### END SOLUTION


# %% check-11-star
check(keep_rows)

# %% progress
progress()
