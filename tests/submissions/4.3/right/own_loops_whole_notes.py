# Notes for all rows are made at once; each Q tile uses its own part.
import numpy as np


def tiled_attention(q, k, v, block_q, block_k):
    n_q, d = q.shape
    m, l_sum, o = np.full((n_q, 1), -np.inf), np.zeros((n_q, 1)), np.zeros((n_q, v.shape[1]))
    for i in range(0, n_q, block_q):
        rows = np.s_[i : i + block_q]
        for j in range(0, len(k), block_k):
            s = (q[rows] @ k[j : j + block_k].T) / d**0.5
            m_new = np.maximum(m[rows], s.max(axis=-1, keepdims=True))
            p, alpha = np.exp(s - m_new), np.exp(m[rows] - m_new)
            l_sum[rows] = alpha * l_sum[rows] + p.sum(axis=-1, keepdims=True)
            o[rows] = alpha * o[rows] + p @ v[j : j + block_k]
            m[rows] = m_new
    return o / l_sum
