# A row is a key here, not a query.
# Expected: misconception: q and k are exchanged
import numpy as np


def naive_attention(q, k, v):
    s = k @ q.T / np.sqrt(q.shape[1])
    e = np.exp(s - s.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return p @ v
