# One query after the other, each with numbers for notes.
# Expected: property: loads k once
import numpy as np


def attend_q_tile(q_tile, k, v, block_k):
    rows = []
    for q in q_tile:
        m, l_sum, o = -np.inf, 0.0, 0.0
        for j in range(0, len(k), block_k):
            s = k[j : j + block_k] @ q / np.sqrt(len(q))
            m_new = max(m, s.max())
            p = np.exp(s - m_new)
            l_sum = np.exp(m - m_new) * l_sum + p.sum()
            o = np.exp(m - m_new) * o + p @ v[j : j + block_k]
            m = m_new
        rows.append(o / l_sum)
    return np.stack(rows)
