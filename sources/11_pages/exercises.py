# %% title [markdown]
# # 11 · Pages: exercises
#
# Run a cell with Shift+Enter.

# %% imports
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
# ## 11.4 · Who owns which page (★★★, 35 minutes)
#
# Write the class that gives out the pages. It stores no keys and no values: it says where the next
# token of a sequence goes, and the caller writes it there.
#
# - `PagePool(n_pages, page_size)`: pages `0 .. n_pages - 1`, all free.
# - `append(seq)`: `seq` gets one more token; a name that is not there yet begins a new sequence.
#   Return `(page, slot, copy_from)`: the token goes to `slot` of `page`. Tokens fill a page from slot
#   0 on, and a new page is taken only when the last is full.
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
# `MemoryError`, and nothing has changed: it may be tried again, later.
#
# Which of the free pages you take is up to you. The check calls your methods in any order, on small
# pools and larger ones, writes tokens as `append` says, reads every sequence back through `table`,
# and counts the pages in use. A name is a text, a number or a tuple; `fork`, `free` and `table` are
# asked of sequences that are there, and a `child` is new. Several pools may be in use at a time.
#
# Example: pages of 4. `append("a")` three times fills slots 0, 1 and 2 of a page, say 7. After
# `fork("a", "b")` both tables are `[7]`. `append("b")` is `(3, 3, 7)`: page 3, slot 3, copy from 7
# first. Now `append("a")` is `(7, 3, None)`: nobody else holds page 7 any more.


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
