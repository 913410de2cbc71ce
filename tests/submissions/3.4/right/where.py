# np.where guards each factor.
import numpy as np


def merge(a, b):
    m = np.maximum(a[0], b[0])
    l_sum, o = 0.0, np.zeros_like(a[2])
    for m_old, l_old, o_old in (a, b):
        with np.errstate(invalid="ignore"):
            factor = np.where(np.isneginf(m_old), 0.0, np.exp(m_old - m))
        l_sum = l_sum + factor * l_old
        o = o + factor * o_old
    return [m, l_sum, o]
