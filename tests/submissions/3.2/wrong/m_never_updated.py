# m stays -inf, so alpha is 0 in every pile.
# Expected: misconception: only the last pile is counted
# Equivalence class: leaves the last pile only, as overwriting l_sum does.
import numpy as np


def stream_denominator(piles):
    m, l_sum = -np.inf, 0.0
    for s in piles:
        m_new = max(m, s.max())
        l_sum = np.exp(m - m_new) * l_sum + np.exp(s - m_new).sum()
    return m_new, l_sum
