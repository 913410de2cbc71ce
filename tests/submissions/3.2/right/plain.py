# The plain way: wrong.diff holds edits of this file.
import numpy as np


def stream_denominator(piles):
    m, l_sum = -np.inf, 0.0
    for s in piles:
        m_new = max(m, s.max())
        l_sum = np.exp(m - m_new) * l_sum + np.exp(s - m_new).sum()
        m = m_new
    return m, l_sum
