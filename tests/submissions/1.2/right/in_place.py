# Works in place on an array of its own, in float64.
import numpy as np


def naive_attention(q, k, v):
    s = q.astype(np.float64) @ k.T
    s /= np.sqrt(q.shape[1])
    s -= s.max(axis=1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(axis=1, keepdims=True)
    return s @ v
