# K outside, Q inside: every Q tile is loaded again for every K tile.
# Expected: property: loads q once
import numpy as np


def tiled_attention(q, k, v, block_q, block_k):
    m, l_sum = np.full((len(q), 1), -np.inf), np.zeros((len(q), 1))
    o = np.zeros((len(q), v.shape[1]))
    for j in range(0, len(k), block_k):
        k_tile, v_tile = k[j : j + block_k], v[j : j + block_k]
        for i in range(0, len(q), block_q):
            rows = slice(i, i + block_q)
            s = q[rows] @ k_tile.T / np.sqrt(q.shape[1])
            m_new = np.maximum(m[rows], s.max(axis=1, keepdims=True))
            alpha, p = np.exp(m[rows] - m_new), np.exp(s - m_new)
            l_sum[rows] = alpha * l_sum[rows] + p.sum(axis=1, keepdims=True)
            o[rows] = alpha * o[rows] + p @ v_tile
            m[rows] = m_new
    return o / l_sum
