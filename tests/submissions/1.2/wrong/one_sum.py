# e.sum() adds up the whole chart.
# Expected: misconception: one sum for the whole chart
import numpy as np


def naive_attention(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(s - s.max(axis=1, keepdims=True))
    p = e / e.sum()
    return p @ v
