# q is divided in place.
# Expected: property: leaves its inputs alone
import numpy as np


def naive_attention(q, k, v):
    q /= np.sqrt(q.shape[1])
    s = q @ k.T
    e = np.exp(s - s.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return p @ v
