# No maximum is subtracted.
# Expected: misconception: no maximum is subtracted
import numpy as np


def naive_attention(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(s)
    p = e / e.sum(axis=1, keepdims=True)
    return p @ v
