# All rows of q at once meet each tile of keys: no row has a tile of its own.
# Expected: property: loads k once per Q tile
import numpy as np


def tiled_attention(q, k, v, block_q, block_k):
    n_q, d = q.shape
    rows = np.vstack([q[i : i + block_q].copy() for i in range(0, n_q, block_q)])
    m, l_sum, o = np.full(n_q, -np.inf), np.zeros(n_q), np.zeros((n_q, d))
    for start in range(0, len(k), block_k):
        s = rows @ k[start : start + block_k].T / np.sqrt(d)
        m_new = np.maximum(m, s.max(axis=1))
        p, alpha = np.exp(s - m_new[:, None]), np.exp(m - m_new)
        l_sum = alpha * l_sum + p.sum(axis=1)
        o = alpha[:, None] * o + p @ v[start : start + block_k]
        m = m_new
    return o / l_sum[:, None]
