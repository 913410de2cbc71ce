# m is kept, but exp is taken of the scores as they are.
# Expected: misconception: no maximum is subtracted
import numpy as np


def stream_denominator(piles):
    m, l_sum = -np.inf, 0.0
    for s in piles:
        m_new = max(m, s.max())
        l_sum = l_sum + np.exp(s).sum()
        m = m_new
    return m, l_sum
