# %% title [markdown]
# # 03 · Online softmax by hand: exercises
#
# Five exercises, about 58 minutes. You need lesson 03 and NumPy; no GPU, no
# Triton. Run a cell with Shift+Enter. `hint(stream_average)` gives a hint,
# three at most for each exercise. Your functions leave their arguments as they
# are. All numbers are float64: round to nothing coarser on the way, and add nothing to a sum
# that does not belong to it. A tiny weight may stand beside a huge value: no share of an
# average may be lost in the rounding of another.

# %% imports
import numpy as np

from course_lib import check, hint, progress

# %% about-3-1 [markdown]
# ## 3.1 · By hand, in both orders (16 minutes)
#
# Paper and a calculator. One row of four scores, not the lesson's, each with a
# value:
#
# | | pile A | pile B |
# |---|---|---|
# | scores | 2, 3 | 6, 2 |
# | values | 40, 20 | 60, 30 |
#
# Walk through the piles twice: first A then B (`first`), then B then A
# (`reversed`). In each walk write down, with **five digits**:
#
# - `m1`, `l1`, `o1`: the three notes after the first pile,
# - `m2`, `alpha`, `l2`, `o2`: the new maximum, the factor `exp(m1 - m2)` for
#   the old notes, and the notes after the second pile,
# - `answer`: `o2 / l2`.
#
# `l` stands for the running sum ℓ (`l_sum` in code). Return this form, with
# your sixteen numbers in it:
#
# ```python
# return {
#     "first": {"m1": 0, "l1": 0, "o1": 0,
#               "m2": 0, "alpha": 0, "l2": 0, "o2": 0, "answer": 0},
#     "reversed": {"m1": 0, "l1": 0, "o1": 0,
#                  "m2": 0, "alpha": 0, "l2": 0, "o2": 0, "answer": 0},
# }
# ```
#
# Five digits in between leave the first four of each number right, and those are
# judged: each number may be off by a thousandth of itself. A computer for `exp` is
# allowed; a loop is not the point.


# %% ex-3-1
def by_hand():
    """Return the numbers of both walks: two dicts of eight numbers."""
    ### BEGIN SOLUTION
    names = ("m1", "l1", "o1", "m2", "alpha", "l2", "o2", "answer")
    first = (3, 1.36788, 34.715, 6, 0.049787, 1.08642, 62.278, 57.324)
    reverse = (6, 1.01832, 60.549, 6, 1, 1.08642, 62.278, 57.324)
    return {
        "first": dict(zip(names, first)),
        "reversed": dict(zip(names, reverse)),
    }
    ### END SOLUTION


# %% check-3-1
check(by_hand)

# %% about-3-2 [markdown]
# ## 3.2 · The denominator, pile by pile (6 minutes)
#
# Close the lesson and write the walk from memory. Two numbers are carried from pile to pile: `m`
# and `l_sum`.
#
# - `piles` is a list of arrays of scores. Pile `j` has shape `(n_j,)`, at
#   least one score, all of them finite.
# - Return `(m, l_sum)`: the largest score of all piles, and the sum of
#   `exp(score - m)` over all piles.
#
# **Each pile is read once,** whole, in one loop (`for s in piles:`). The desk has room for
# one: while a pile lies there, look at it as often as you like; when you take the next, the
# numbers of the one before become NaN. The check counts, and measures your memory.
#
# Example: `[1, 3]`, `[2, 5]` gives `(5.0, 1.20344)`, rounded.


# %% ex-3-2
def stream_denominator(piles):
    """Return (m, l_sum) of all scores: two numbers.

    piles: list of (n_j,) scores.
    """
    ### BEGIN SOLUTION
    m, l_sum = -np.inf, 0.0
    for s in piles:  # (n,)
        m_new = max(m, s.max())
        l_sum = np.exp(m - m_new) * l_sum + np.exp(s - m_new).sum()
        m = m_new
    return m, l_sum
    ### END SOLUTION


# %% check-3-2
check(stream_denominator)

# %% about-3-3 [markdown]
# ## 3.3 · The weighted average, pile by pile (12 minutes)
#
# Write the whole walk with three notes: `m`, `l_sum` and `o` (the O of the
# lesson).
#
# - `piles` is a list of arrays of scores. Pile `j` has shape `(n_j,)`.
# - `values` is a list of arrays. Entry `j` has shape `(n_j, d)`: one row for
#   each score of pile `j`.
# - Return one array of shape `(d,)`: the average of all rows, weighted by the
#   softmax of all scores.
#
# **Each pile is read once**, as in 3.2, and so are its values: the desk has room
# for one pile and its values at a time. (A look at `values[0].shape` beforehand is free.)
#
# A score of `-inf` means "this key is masked": its weight is 0. A whole pile
# may be masked. At least one key of the row is not.
#
# Example: piles `[1, 3]` and `[2, 5]`, values `[[10], [20]]` and
# `[[30], [40]]`. The answer is `[36.881]`.


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

# %% about-3-4 [markdown]
# ## 3.4 · Merge two states, in any order (12 minutes)
#
# Two people have each walked through some piles. Make one state of their two.
#
# - A state is a tuple `(m, l_sum, o)`: a number, a number, and an array of
#   shape `(d,)`. `o` is not divided yet.
# - `merge(a, b)` returns the state of all keys of both, as such a tuple. `a` and
#   `b` stay unchanged; where one of them is the answer, you may return it.
# - The state of no keys at all is `(-np.inf, 0.0, zeros)`. A fully masked pile
#   has this state. Merged with any state it changes nothing; merged with
#   itself it gives itself. (Of any other state, merged with itself, each key
#   counts twice.) Nothing may become NaN.
#
# The check merges many states: from the left, from the right, in pairs as a
# tree, and shuffled.
#
# Example: `(3.0, 1.13534, [21.353])` and `(5.0, 1.04979, [41.494])` give
# `(5.0, 1.20344, [44.383])`, to five digits.


# %% ex-3-4
def merge(a, b):
    """Return the state (m, l_sum, o) of the keys of a and b together.

    a, b: states (m, l_sum, o) with o of shape (d,).
    """
    m_a, l_a, o_a = a
    m_b, l_b, o_b = b
    ### BEGIN SOLUTION
    m = max(m_a, m_b)
    base = 0.0 if m == -np.inf else m  # no key on either side
    f_a = np.exp(m_a - base)  # a's scale -> the common scale
    f_b = np.exp(m_b - base)
    return m, f_a * l_a + f_b * l_b, f_a * o_a + f_b * o_b
    ### END SOLUTION


# %% check-3-4
check(merge)

# %% about-3-5 [markdown]
# ## 3.5 · Write inputs that expose three broken versions (12 minutes)
#
# Now you are the examiner. Three people handed in a `stream_average`. Each
# has one mistake. Read them first.


# %% broken-versions
def forgets_to_rescale_o(piles, values):
    m, l_sum, o = -np.inf, 0.0, 0.0
    for s, v in zip(piles, values):
        m_new = max(m, s.max())
        p = np.exp(s - m_new)
        l_sum = np.exp(m - m_new) * l_sum + p.sum()
        o = o + p @ v  # the mistake
        m = m_new
    return o / l_sum


def uses_own_maximum(piles, values):
    m, l_sum, o = -np.inf, 0.0, 0.0
    for s, v in zip(piles, values):
        m_new = max(m, s.max())
        alpha = np.exp(m - m_new)
        p = np.exp(s - s.max())  # the mistake
        l_sum = alpha * l_sum + p.sum()
        o = alpha * o + p @ v
        m = m_new
    return o / l_sum


def starts_at_zero(piles, values):
    m, l_sum, o = 0.0, 0.0, 0.0  # the mistake
    for s, v in zip(piles, values):
        m_new = max(m, s.max())
        alpha = np.exp(m - m_new)
        p = np.exp(s - m_new)
        l_sum = alpha * l_sum + p.sum()
        o = alpha * o + p @ v
        m = m_new
    return o / l_sum


# %% about-3-5-task [markdown]
# Return **one** input `(piles, values)` on which all three are visibly wrong.
#
# - `piles`: a list of 3 to 8 arrays, each `(n_j,)` with 1 to 8 scores. (With two piles one
#   of the mistakes always stays hidden.)
# - `values`: a list of as many arrays, each `(n_j, d)`.
# - All numbers are finite and at most a million in size.
# - Visibly wrong: the answer is NaN, or off by more than a thousandth of the
#   largest value.
#
# The check takes the arrays as float64.
#
# The input `[1, 3]`, `[2, 5]` with values `[[10], [20]]`, `[[30], [40]]`
# exposes one of the three. Which one? The next cell answers; change its numbers
# to try your own.


# %% try-it
def try_out(piles, values):
    """Print what the three versions make of one input."""
    for f in (forgets_to_rescale_o, uses_own_maximum, starts_at_zero):
        with np.errstate(all="ignore"):
            print(f"{f.__name__:22}", f(piles, values))


piles = [np.array([1.0, 3.0]), np.array([2.0, 5.0])]
values = [np.array([[10.0], [20.0]]), np.array([[30.0], [40.0]])]
try_out(piles, values)  # the truth: 36.881


# %% ex-3-5
def exposing_inputs():
    """Return (piles, values): lists of (n_j,) and (n_j, d) arrays."""
    ### BEGIN SOLUTION
    piles = [
        np.array([-1001.0, -1000.0]),
        np.array([-999.0, -997.0]),  # a new maximum: o must be rescaled
        np.array([-998.0]),  # no new maximum: its own is the wrong one
    ]  # and exp of every score is 0 if m starts at 0
    values = [np.array([[10.0], [20]]), np.array([[30.0], [40]]), np.array([[90.0]])]
    return piles, values
    ### END SOLUTION


# %% check-3-5
check(exposing_inputs)

# %% progress
progress()
