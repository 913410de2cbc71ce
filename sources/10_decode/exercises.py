# %% title [markdown]
# # 10 · Decode: exercises
#
# Run a cell with Shift+Enter.

# %% imports
from course_lib import check, hint, progress

# %% about-10-1 [markdown]
# ## 10.1 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(attention_intensity)`.


# %% ex-10-1
def attention_intensity(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-10-1
check(attention_intensity)

# %% about-10-2 [markdown]
# ## 10.2 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(append_token)`.


# %% ex-10-2
def append_token(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-10-2
check(append_token)

# %% about-10-3 [markdown]
# ## 10.3 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(split_decode)`.


# %% ex-10-3
def split_decode(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
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
# ## 10★ · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(tree_decode)`.


# %% ex-10-star
def tree_decode(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-10-star
check(tree_decode)

# %% progress
progress()
