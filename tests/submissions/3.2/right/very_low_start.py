# m starts at the lowest number there is.
import numpy as np


def stream_denominator(piles):
    m, l_sum = np.array(np.finfo(np.float64).min), np.array(0.0)
    for s in piles:
        m_old, m = m, np.max([m, s.max()])
        l_sum = l_sum * np.exp(m_old - m)
        l_sum = l_sum + np.exp(s - m) @ np.ones_like(s)
    return m, l_sum
