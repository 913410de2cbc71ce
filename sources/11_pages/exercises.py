# %% title [markdown]
# # 11 · Pages: exercises
#
# Run a cell with Shift+Enter.

# %% imports
import torch

from course_lib import check, hint, progress

# %% about-11-1 [markdown]
# ## 11.1 · What pages reserve, and what of it is empty (★, 8 minutes)
#
# Nobody knows how long an answer will be. A cache that reserves room for the longest possible one is
# mostly empty; a cache in **pages** takes a page of `page_size` slots when the next token needs one.
# What is left empty then? Count it, for sequences of given lengths.
#
# - A slot has room for one token: a row of K and a row of V, of `head_dim` numbers each, for each of
#   `kv_heads` key heads in each of `layers` layers; `b` bytes a number.
# - A page belongs to one sequence (nothing is shared here), and is reserved whole.
# - A sequence takes a page only when there is a token for it: none for length 0.
# - Wasted is what is reserved and holds no token.
#
# Example: lengths 3, 9 and 14 in pages of 4 take 1, 3 and 4 pages, and 1 + 3 + 2 slots are empty.
# There may be no sequence at all.


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
# ## 11.2 · Gather a sequence from its pages (★, 8 minutes)
#
# All sequences keep their rows in one pool of pages, in whatever page was free at the time. The
# **logical** order, token after token, is in a sequence's table alone: token `t` stands in slot
# `t % page_size` of page `table[t // page_size]`. The **physical** order of the pages says nothing.
#
# ```
# page_size 4, length 6, table [7, 2, -1, 900]        page 7: t0 t1 t2 t3     page 2: t4 t5 .. ..
# ```
#
# Return the rows of one sequence in logical order, in a new tensor of `pages`' dtype: what lesson
# 10's decode would take. (A kernel does not gather: it looks up the table as it goes. That is 11.3.)
#
# - The last page may be full or not; `length` may be 0.
# - Entries past the last page in use are garbage, numbers of any size: do not follow them.
# - Slots behind the last token hold what an older sequence left there.
# - The pool is large and not yours. The check counts: it is not copied for one sequence.


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
# ## 11.3 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(paged_decode)`.


# %% ex-11-3
def paged_decode(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


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
