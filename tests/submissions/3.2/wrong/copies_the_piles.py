# Each pile is read once, and copied: all scores are held.
# Expected: property: one pile at a time
import numpy as np


def stream_denominator(piles):
    mine = [s.copy() for s in piles]
    m = max(s.max() for s in mine)
    return m, sum(np.exp(s - m).sum() for s in mine)
