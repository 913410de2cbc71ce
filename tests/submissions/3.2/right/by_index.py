# Piles by their number, each named more than once while it lies there.
import numpy as np


def stream_denominator(piles):
    m, l_sum = piles[0].max(), 0.0
    for j in range(len(piles)):
        m_new = max(m, piles[j].max())
        l_sum = l_sum * np.exp(m - m_new) + np.exp(piles[j] - m_new).sum()
        m = m_new
    return np.array([m, l_sum])
