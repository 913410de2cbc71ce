# The largest score first, then the sum: two passes, one pile at a time.
# Expected: property: reads each pile once
import numpy as np


def stream_denominator(piles):
    m = max(np.max(s) for s in piles)
    return m, sum(np.exp(s - m).sum() for s in piles)
