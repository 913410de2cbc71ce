# m starts at 0.
# Expected: misconception: the maximum starts at 0
import numpy as np


def stream_denominator(piles):
    m, l_sum = 0.0, 0.0
    for s in piles:
        m_new = max(m, s.max())
        l_sum = np.exp(m - m_new) * l_sum + np.exp(s - m_new).sum()
        m = m_new
    return m, l_sum
