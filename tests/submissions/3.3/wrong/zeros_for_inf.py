# -inf is replaced by 0, so masked keys count as score 0.
# Expected: misconception: masked keys count as score 0
import numpy as np


def stream_average(piles, values):
    m, l_sum = -np.inf, 0.0
    o = np.zeros(values[0].shape[1])
    for s, v in zip(piles, values):
        s = np.where(np.isinf(s), 0.0, s)
        m_new = max(m, s.max())
        base = 0.0 if m_new == -np.inf else m_new
        alpha = np.exp(m - base)
        p = np.exp(s - base)
        l_sum = alpha * l_sum + p.sum()
        o = alpha * o + p @ v
        m = m_new
    return o / l_sum
