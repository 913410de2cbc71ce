# %% title [markdown]
# # 03 · Online softmax by hand: exercises
#
# Five exercises, about 45 minutes. You need lesson 03 and NumPy; no GPU, no
# Triton. Run a cell with Shift+Enter. `hint(stream_average)` gives a hint,
# three at most for each exercise.

# %% imports
import numpy as np

from course_lib import check, hint, progress

# %% about-3-3 [markdown]
# ## 3.3 · The weighted average, pile by pile (8 minutes)
#
# Write the whole walk: `m`, `l_sum` and `O`.
#
# - `piles` is a list of arrays of scores. Pile `j` has shape `(n_j,)`.
# - `values` is a list of arrays. Entry `j` has shape `(n_j, d)`: one row for
#   each score of pile `j`.
# - Return one array of shape `(d,)`: the average of all rows, weighted by the
#   softmax of all scores.
#
# Look at one pile at a time. Do not join the piles.
#
# A score of `-inf` means "this key is masked": its weight is 0. A whole pile
# may be masked. At least one key of the row is not.
#
# Example: piles `[1, 3]` and `[2, 5]`, values `[[10], [20]]` and
# `[[30], [40]]`. The answer is `[36.882]`.

# %% ex-3-3
def stream_average(piles, values):
    """Return the softmax-weighted average of all values, shape (d,).

    piles: list of (n_j,) scores; values: list of (n_j, d).
    """
    ### BEGIN SOLUTION
    m, l_sum = -np.inf, 0.0
    o = np.zeros(values[0].shape[1])  # (d,)
    for s, v in zip(piles, values):  # s: (n,), v: (n, d)
        m_new = max(m, s.max())
        base = 0.0 if m_new == -np.inf else m_new  # no key seen yet
        alpha = np.exp(m - base)  # old scale -> new scale
        p = np.exp(s - base)  # (n,)
        l_sum = alpha * l_sum + p.sum()
        o = alpha * o + p @ v  # (d,)
        m = m_new
    return o / l_sum  # divide once, at the end
    ### END SOLUTION


# %% check-3-3
check(stream_average)

# %% progress
progress()
