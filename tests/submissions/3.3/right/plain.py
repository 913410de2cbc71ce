# The plain way: wrong.diff holds edits of this file.
import numpy as np


def stream_average(piles, values):
    m, l_sum = -np.inf, 0.0
    o = np.zeros(values[0].shape[1])
    for s, v in zip(piles, values):
        m_new = max(m, s.max())
        base = 0.0 if m_new == -np.inf else m_new
        alpha = np.exp(m - base)
        p = np.exp(s - base)
        l_sum = alpha * l_sum + p.sum()
        o = alpha * o + p @ v
        m = m_new
    return o / l_sum
