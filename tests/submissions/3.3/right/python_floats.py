# Each pile as a list of Python's numbers, which take four times the memory; masked keys skipped.
import math

import numpy as np


def stream_average(piles, values):
    m, l_sum, o = -math.inf, 0.0, None
    for pile, rows in zip(piles, values):
        o = [0.0] * rows.shape[1] if o is None else o
        for s, row in zip(pile.tolist(), rows.tolist()):
            if s == -math.inf:
                continue
            if s > m:
                alpha = math.exp(m - s)
                l_sum, o, m = l_sum * alpha, [a * alpha for a in o], s
            p = math.exp(s - m)
            l_sum += p
            o = [a + p * x for a, x in zip(o, row)]
    return np.array([a / l_sum for a in o])
