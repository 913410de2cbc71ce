# The last pile first; the log of the sum is carried, and near 1e17 it is lost.
# Expected: misconception: the log of the sum is kept
import numpy as np


def stream_denominator(piles):
    m = lse = -np.inf
    for s in reversed(piles):
        m = np.maximum(m, np.max(s))
        lse = np.logaddexp(lse, np.logaddexp.reduce(s))
    return float(m), np.exp(lse - m)
