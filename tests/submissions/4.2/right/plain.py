# The plain way: wrong.diff holds edits of this file.
import numpy as np


def attend_q_tile(q_tile, k, v, block_k):
    n_rows, d = q_tile.shape
    m = np.full(n_rows, -np.inf)
    l_sum = np.zeros(n_rows)
    o = np.zeros((n_rows, d))
    for start in range(0, len(k), block_k):
        cols = slice(start, start + block_k)
        s = q_tile @ k[cols].T / np.sqrt(d)
        m_new = np.maximum(m, s.max(axis=1))
        alpha = np.exp(m - m_new)
        p = np.exp(s - m_new[:, None])
        l_sum = alpha * l_sum + p.sum(axis=1)
        o = alpha[:, None] * o + p @ v[cols]
        m = m_new
    return o / l_sum[:, None]
