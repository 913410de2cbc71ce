# Inverted, and the first pile treated apart.
# Expected: misconception: alpha is inverted
import numpy as np


def stream_denominator(piles):
    m, l_sum = -np.inf, 0.0
    for s in piles:
        m_new = max(m, s.max())
        l_sum = (np.exp(m_new - m) * l_sum if l_sum else 0.0) + np.exp(s - m_new).sum()
        m = m_new
    return m, l_sum
