# enumerate and an index for the values; iter and next for the first pile.
import numpy as np


def stream_average(piles, values):
    m, l_sum = -np.inf, 0.0
    o = np.zeros_like(values[0][0])
    for j, s in enumerate(iter(piles)):
        m_new = max(m, float(np.asarray(s).max(initial=-np.inf)))
        if m_new == -np.inf:
            continue
        alpha, p = np.exp(m - m_new), np.exp(s - m_new)
        l_sum = alpha * l_sum + sum(p)
        o = alpha * o + np.average(values[j], axis=0, weights=p) * sum(p) if sum(p) else alpha * o
        m = m_new
    return o / l_sum
