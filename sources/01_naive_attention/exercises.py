# %% title [markdown]
# # 01 · Naive attention: the exercises
#
# Four exercises, about 22 minutes. You need lesson 01, NumPy, and its little
# PyTorch for the last one. `hint(naive_attention)` gives a hint, three at most
# for each exercise. In all exercises your function leaves its arguments as they
# are, and returns arrays of its own.
#
# The lesson's three lines, for one head with N tokens:
#
# ```python
# scores = q @ k.T                      # line 1: (N, N)
# weights = softmax(scores / sqrt(d))   # line 2: (N, N), row by row
# o = weights @ v                       # line 3: (N, d)
# ```

# %% imports
import math

import numpy as np
import torch

from course_lib import EagerLedger, check, hint, progress

# %% about-1-1 [markdown]
# ## 1.1 · What grows, and what costs most? (3 minutes)
#
# Somebody writes attention in five lines. Each token pair has a `bias`, a number
# that is added to its score. Each query is first multiplied by a row `gain`
# of d numbers, and nothing is divided by `sqrt(d)`:
#
# ```python
# q = q * gain               # line 1: (N, d)
# scores = q @ k.T           # line 2: (N, N)
# scores = scores + bias     # line 3: (N, N); bias is (N, N), too
# weights = softmax(scores)  # line 4: (N, N)
# o = weights @ v            # line 5: (N, d)
# ```
#
# Return two whole numbers.
#
# 1. N becomes **three times** as large. **How many times as many** numbers does
#    `scores` hold?
# 2. Which of these five lines moves **most bytes** to and from memory, when eager
#    PyTorch runs them at large N? Give its number: 1, 2, 3, 4 or 5.
#
# For example, `return 8, 1` says "eight times, line 1". (8.0 would do as well.)


# %% ex-1-1
def predict_doubling():
    """Return (how many times as many scores, number of the line that moves most)."""
    ### BEGIN SOLUTION
    return 9, 3
    ### END SOLUTION


# %% check-1-1
check(predict_doubling)

# %% about-1-2 [markdown]
# ## 1.2 · Attention in NumPy (6 minutes)
#
# Close the lesson and write the three lines from memory, in NumPy, without PyTorch (it
# is graded where there is none). There is no `softmax` in NumPy, so line 2 becomes two or three lines of
# your own.
#
# * `q` has shape `(n_q, d)`; `k` and `v` have shape `(n_k, d)`. The number of
#   queries and the number of keys may differ.
# * The scores are divided by `sqrt(d)`.
# * Each **row** of weights is positive and sums to 1.
# * Inputs are float32 or float64, and lie in memory by rows or by columns: round to nothing
#   coarser on the way.
# * Large scores must work, and `np.exp(1000)` is infinite. Lesson 01 says what to
#   subtract first.
#
# Small example: with `q = [[1.]]`, `k = [[1.], [3.]]`, `v = [[10.], [20.]]` the
# scores are 1 and 3, and the answer is `[[18.81]]`, rounded.


# %% ex-1-2
def naive_attention(q, k, v):
    """Attention: q (n_q, d), k (n_k, d), v (n_k, d) -> o (n_q, d)."""
    ### BEGIN SOLUTION
    scores = q @ k.T / np.sqrt(q.shape[1])  # (n_q, n_k)
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = e / e.sum(axis=1, keepdims=True)  # rows sum to 1
    return weights @ v  # (n_q, d)
    ### END SOLUTION


# %% check-1-2
check(naive_attention)

# %% about-1-3 [markdown]
# ## 1.3 · The bytes of every trip (7 minutes)
#
# One head, N = `n` tokens, and `itemsize` bytes per element. Count the bytes of
# the **four-trip** version: S and P are each written once and read once, and Q,
# K, V and O move once each. Return a dict with these keys,
# and do not round:
#
# | key | what it is |
# |---|---|
# | `"qkvo"` | bytes to read Q, K and V and to write O, together |
# | `"write_s"` | bytes to write S |
# | `"read_s"` | bytes to read S back |
# | `"write_p"` | bytes to write P |
# | `"read_p"` | bytes to read P back |
# | `"total"` | all of the above, in bytes |
# | `"total_gb"` | the total in GB (1 GB = 10⁹ bytes) |
# | `"s_mib"` | the size of one S in MiB (1 MiB = 2²⁰ bytes) |
#
# Small example, the three guests of the lesson: `trip_bytes(3, 2, 2)` has
# `"write_s": 18`, `"qkvo": 48` and `"total": 120`.


# %% ex-1-3
def trip_bytes(n, d, itemsize):
    """Return the bytes that naive attention moves, trip by trip, as a dict."""
    ### BEGIN SOLUTION
    square = n * n * itemsize  # one (N, N) matrix
    linear = 4 * n * d * itemsize  # Q, K, V and O
    total = 4 * square + linear
    return {
        "qkvo": linear,
        "write_s": square,
        "read_s": square,
        "write_p": square,
        "read_p": square,
        "total": total,
        "total_gb": total / 1e9,
        "s_mib": square / 2**20,
    }
    ### END SOLUTION


# %% check-1-3
check(trip_bytes)

# %% about-1-4 [markdown]
# ## 1.4 · Six trips become four (6 minutes)
#
# This function is right, and the ledger counts **six** trips of an N × N matrix:


# %% six-trips
def six_trips(q, k, v):
    """Attention as many write it."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (..., n_q, n_k)
    return torch.softmax(scores, dim=-1) @ v  # (..., n_q, d)


n, d = 256, 16
q, k, v = (torch.randn(n, d) for _ in range(3))
with EagerLedger(q=q, k=k, v=v) as ledger:
    six_trips(q, k, v)
print(ledger.trips(n * n * 4), "trips")
ledger

# %% task-1-4 [markdown]
# Two of the six trips are there only because of the division. Write the same
# attention in PyTorch so that the ledger counts **four**.
#
# * `q` has shape `(n_q, d)` or `(batch, heads, n_q, d)`; `k` and `v` fit.
#   `k.mT` swaps the last two dimensions in both cases.
# * The result has the dtype of `q`. (Where that is a half precision, the softmax may be in float32:
#   what converts on its way is not counted.)
# * Write the lines yourself, with `torch.softmax` (one operation) and no fused
#   attention.


# %% ex-1-4
def four_trip_attention(q, k, v):
    """Attention in four trips: q (..., n_q, d), k, v (..., n_k, d) -> (..., n_q, d)."""
    ### BEGIN SOLUTION
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT  # (..., n_q, n_k)
    return torch.softmax(scores, dim=-1) @ v  # (..., n_q, d)
    ### END SOLUTION


# %% check-1-4
check(four_trip_attention)

# %% progress
progress()
