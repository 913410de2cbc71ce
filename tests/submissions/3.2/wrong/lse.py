# The log of the sum.
# Expected: misconception: lse in place of l_sum
import numpy as np


def stream_denominator(piles):
    m, l_sum = -np.inf, 0.0
    for s in piles:
        m_new = max(m, s.max())
        l_sum = np.exp(m - m_new) * l_sum + np.exp(s - m_new).sum()
        m = m_new
    return m, m + np.log(l_sum)
