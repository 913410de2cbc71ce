# min, not max.
# Expected: misconception: the minimum is taken
import numpy as np


def stream_denominator(piles):
    m, l_sum = np.inf, 0.0
    for s in piles:
        m_new = min(m, s.min())
        l_sum = np.exp(m - m_new) * l_sum + np.exp(s - m_new).sum()
        m = m_new
    return m, l_sum
