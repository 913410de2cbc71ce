# The plain way: wrong.diff holds edits of this file.
import numpy as np


def tiled_attention(q, k, v, block_q, block_k):
    o = np.zeros((len(q), v.shape[1]))
    for i in range(0, len(q), block_q):
        rows = slice(i, i + block_q)
        n_rows = len(q[rows])
        m = np.full(n_rows, -np.inf)
        l_sum = np.zeros(n_rows)
        acc = np.zeros((n_rows, v.shape[1]))
        for j in range(0, len(k), block_k):
            cols = slice(j, j + block_k)
            s = q[rows] @ k[cols].T / np.sqrt(q.shape[1])
            m_new = np.maximum(m, s.max(axis=1))
            alpha = np.exp(m - m_new)
            p = np.exp(s - m_new[:, None])
            l_sum = alpha * l_sum + p.sum(axis=1)
            acc = alpha[:, None] * acc + p @ v[cols]
            m = m_new
        o[rows] = acc / l_sum[:, None]
    return o
