# Columns (n, 1) for the notes, and the last tile of keys first.
import numpy as np


def attend_q_tile(q_tile, k, v, block_k):
    n, d = q_tile.shape
    m, l_sum, acc = np.full((n, 1), -np.inf), np.zeros((n, 1)), np.zeros((n, v.shape[1]))
    q = q_tile * d**-0.5
    starts = list(range(0, k.shape[0], block_k))
    for j in starts[::-1]:
        s = np.einsum("id,jd->ij", q, k[j : j + block_k])
        top = np.maximum(m, s.max(1, keepdims=True))
        p = np.exp(s - top)
        l_sum *= np.exp(m - top)
        acc *= np.exp(m - top)
        l_sum += p.sum(1, keepdims=True)
        acc += p @ v[j : j + block_k]
        m = top
    acc /= l_sum
    return acc
