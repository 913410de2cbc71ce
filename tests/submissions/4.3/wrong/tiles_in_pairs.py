# Tiles of queries and of keys are paired, the first with the first and so on.
# Expected: misconception: a Q tile meets one tile of keys only
import numpy as np


def tiled_attention(q, k, v, block_q, block_k):
    o = np.zeros((len(q), v.shape[1]))
    starts = zip(range(0, len(q), block_q), range(0, len(k), block_k))
    for i, j in starts:
        s = q[i : i + block_q] @ k[j : j + block_k].T / np.sqrt(q.shape[1])
        p = np.exp(s - s.max(axis=1, keepdims=True))
        o[i : i + block_q] = p @ v[j : j + block_k] / p.sum(axis=1, keepdims=True)
    return o
