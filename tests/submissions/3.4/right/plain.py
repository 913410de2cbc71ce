# The plain way: wrong.diff holds edits of this file.
import numpy as np


def merge(a, b):
    m_a, l_a, o_a = a
    m_b, l_b, o_b = b
    m = max(m_a, m_b)
    base = 0.0 if m == -np.inf else m
    f_a = np.exp(m_a - base)
    f_b = np.exp(m_b - base)
    return m, f_a * l_a + f_b * l_b, f_a * o_a + f_b * o_b
