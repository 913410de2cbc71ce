# The piles are joined: the row is in one place again.
# Expected: property: one pile at a time
import numpy as np


def stream_denominator(piles):
    s = np.concatenate(piles)
    return s.max(), np.exp(s - s.max()).sum()
