# np.exp(...) / sqrt(d) divides numerator and denominator alike: no scale at all.
# Expected: misconception: the scale is missing
# Equivalence class: not to be told from a scale that was forgotten.
import numpy as np


def naive_attention(q, k, v):
    s = q @ k.T
    e = np.exp(s - s.max(axis=1, keepdims=True)) / np.sqrt(q.shape[1])
    p = e / e.sum(axis=1, keepdims=True)
    return p @ v
