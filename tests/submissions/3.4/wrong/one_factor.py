# One factor, exp(m_a - m_b), whichever is larger.
# Expected: property: the values
import numpy as np


def merge(a, b):
    m_a, l_a, o_a = a
    m_b, l_b, o_b = b
    m = max(m_a, m_b)
    base = 0.0 if m == -np.inf else m
    f_a = 1.0
    f_b = np.exp(m_b - m_a)
    return m, f_a * l_a + f_b * l_b, f_a * o_a + f_b * o_b
