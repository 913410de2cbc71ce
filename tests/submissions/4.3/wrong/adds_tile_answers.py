# Each K/V tile's own answer is added.
# Expected: misconception: tile answers are added
import numpy as np


def tiled_attention(q, k, v, block_q, block_k):
    o = np.zeros((len(q), v.shape[1]))
    for i in range(0, len(q), block_q):
        for j in range(0, len(k), block_k):
            s = q[i : i + block_q] @ k[j : j + block_k].T / np.sqrt(q.shape[1])
            p = np.exp(s - s.max(axis=1, keepdims=True))
            o[i : i + block_q] += p @ v[j : j + block_k] / p.sum(axis=1, keepdims=True)
    return o
