# %% title [markdown]
# # 12 · Serving: exercises
#
# Run a cell with Shift+Enter.

# %% imports
from course_lib import check, hint, progress

# %% about-12-1 [markdown]
# ## 12.1 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(latent_decode)`.


# %% ex-12-1
def latent_decode(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-12-1
check(latent_decode)

# %% about-12-2 [markdown]
# ## 12.2 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(int8_cache)`.


# %% ex-12-2
def int8_cache(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-12-2
check(int8_cache)

# %% about-12-3 [markdown]
# ## 12.3 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(next_batch)`.


# %% ex-12-3
def next_batch(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-12-3
check(next_batch)

# %% about-12-4 [markdown]
# ## 12.4 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(choose_backend)`.


# %% ex-12-4
def choose_backend(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-12-4
check(choose_backend)

# %% progress
progress()
