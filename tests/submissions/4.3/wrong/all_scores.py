# Naive attention, all scores at once.
# Expected: property: one tile at a time
import numpy as np


def tiled_attention(q, k, v, block_q, block_k):
    o = np.zeros((len(q), v.shape[1]))
    s = q @ k.T / np.sqrt(q.shape[1])
    p = np.exp(s - s.max(axis=1, keepdims=True))
    o[:] = p @ v / p.sum(axis=1, keepdims=True)
    return o
