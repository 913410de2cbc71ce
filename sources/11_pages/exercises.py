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
