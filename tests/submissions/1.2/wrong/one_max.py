# One maximum for the whole chart.
# Expected: misconception: one maximum for the whole chart
import numpy as np


def naive_attention(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(s - s.max())
    p = e / e.sum(axis=1, keepdims=True)
    return p @ v
