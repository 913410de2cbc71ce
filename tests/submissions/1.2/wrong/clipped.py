# Scores are clipped instead of shifted.
# Expected: misconception: scores are clipped, not shifted
import numpy as np


def naive_attention(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    s = np.clip(s, -80, 80)
    e = np.exp(s)
    p = e / e.sum(axis=1, keepdims=True)
    return p @ v
