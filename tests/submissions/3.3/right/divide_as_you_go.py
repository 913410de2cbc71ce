# o is an average after every pile: the old one is weighed by its share of l_sum.
import numpy as np


def stream_average(piles, values):
    m, l_sum, o = -np.inf, 0.0, 0.0
    for s, v in zip(piles, values):
        if np.all(np.isneginf(s)):
            continue
        m_new = np.maximum(m, s.max())
        p = np.exp(s - m_new)
        l_new = np.exp(m - m_new) * l_sum + p.sum()
        o = (np.exp(m - m_new) * l_sum * o + p @ v) / l_new
        m, l_sum = m_new, l_new
    return o
