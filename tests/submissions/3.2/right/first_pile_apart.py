# The first pile starts the notes, the others come after it.
import numpy as np


def stream_denominator(piles):
    first = piles[0]
    m = first.max()
    l_sum = np.sum(np.exp(first - m))
    for s in piles[1:]:
        if s.max() > m:
            l_sum = l_sum / np.exp(s.max() - m)
            m = s.max()
        l_sum += np.sum(np.exp(s - m))
    return m, l_sum
