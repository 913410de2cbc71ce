# A list of all piles is made first: it is there when the next pile is taken.
# Expected: property: one pile at a time
import numpy as np


def stream_denominator(piles):
    first, *rest = piles
    m = first.max()
    l_sum = np.sum(np.exp(first - m))
    for s in rest:
        m_new = max(m, s.max())
        l_sum = l_sum * np.exp(m - m_new) + np.exp(s - m_new).sum()
        m = m_new
    return m, l_sum
