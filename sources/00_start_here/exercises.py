# %% title [markdown]
# # 00 · Start here: the exercise
#
# One exercise, 3 minutes. It ends in your first green check.
#
# Every exercise has the same three cells: the task, your code, the check.
# Run a cell with Shift + Enter. You may run a check as often as you like.

# %% imports
import numpy as np

from course_lib import check, hint, progress

# %% about-0-1 [markdown]
# ## 0.1 · Return the input (3 minutes)
#
# Write `echo(x)`. It gets a NumPy array `x` of real numbers, of any shape and dtype.
# It returns **a new array** with the same numbers, the same shape and the same dtype.
# `x` itself stays as it was.
#
# For example, `echo(np.array([1.0, 2.0]))` is `array([1., 2.])`.
#
# The function is short, because the task is another one: **see what a check can say**.
#
# 1. Run the check now, before you write anything.
# 2. Write a line with a mistake in it, for example `return y`. Run both cells.
# 3. Then write the right line.


# %% ex-0-1
def echo(x):
    """Return a new array equal to x: same numbers, same shape, same dtype."""
    ### BEGIN SOLUTION
    return x.copy()
    ### END SOLUTION


# %% check-0-1
check(echo)

# %% about-hints [markdown]
# Stuck? Take the `#` away and run the next cell. Each run gives one more hint,
# three at most. Hints cost nothing.

# %% hints
# hint(echo)

# %% done [markdown]
# ## Where you are

# %% progress
progress()
