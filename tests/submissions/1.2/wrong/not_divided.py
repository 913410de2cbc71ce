# The weights do not sum to 1.
# Expected: misconception: not divided by l
import numpy as np


def naive_attention(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(s - s.max(axis=1, keepdims=True))
    p = e
    return p @ v
