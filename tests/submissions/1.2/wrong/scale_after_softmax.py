# The weights are divided, not the scores.
# Expected: misconception: the weights are scaled, not the scores
import numpy as np


def naive_attention(q, k, v):
    s = q @ k.T
    e = np.exp(s - s.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return p / np.sqrt(q.shape[1]) @ v
