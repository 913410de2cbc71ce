# The factors are above 1.
# Expected: misconception: alpha is inverted
import numpy as np


def merge(a, b):
    m_a, l_a, o_a = a
    m_b, l_b, o_b = b
    m = max(m_a, m_b)
    base = 0.0 if m == -np.inf else m
    f_a = np.exp(base - m_a)
    f_b = np.exp(base - m_b)
    return m, f_a * l_a + f_b * l_b, f_a * o_a + f_b * o_b
