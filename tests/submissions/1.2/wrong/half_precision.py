# The scores are rounded to half precision.
# Expected: property: the values
import numpy as np


def naive_attention(q, k, v):
    s = (q @ k.T / np.sqrt(q.shape[1])).astype(np.float16)
    e = np.exp(s - s.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return p @ v
