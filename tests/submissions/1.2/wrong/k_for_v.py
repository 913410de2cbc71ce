# K is mixed, not V.
# Expected: misconception: K is read in place of V
import numpy as np


def naive_attention(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(s - s.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return p @ k
