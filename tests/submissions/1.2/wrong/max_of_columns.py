# The maximum of each column.
# Expected: misconception: the maximum of each column
import numpy as np


def naive_attention(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(s - s.max(axis=0, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return p @ v
