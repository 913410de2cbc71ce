# NumPy counts the bytes.
import numpy as np


def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    size = np.array([heads, kv_heads, kv_heads, heads]) * np.array([n_q, n_k, n_k, n_q])
    return np.sum(size * d * itemsize)
