# The last pile first: where it has no key, -inf - (-inf) is NaN.
# Expected: property: the values
import numpy as np


def stream_average(piles, values):
    m, l_sum, o = -np.inf, 0.0, np.zeros(values[0].shape[1])
    for s, v in zip(piles[::-1], values[::-1], strict=True):
        top = s.max()
        if top > m:
            shrink = np.exp(m - top)
            l_sum, o, m = l_sum * shrink, o * shrink, top
        p = np.exp(s - m)
        l_sum, o = l_sum + p.sum(), o + p @ v
    return o / l_sum
