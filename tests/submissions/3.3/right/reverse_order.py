# The last pile first, and a guard around alpha and p.
import numpy as np


def stream_average(piles, values):
    m, l_sum, o = float("-inf"), 0, np.zeros_like(values[0][0])
    for j in range(len(piles) - 1, -1, -1):
        top = piles[j].max()
        if top > m:
            shrink = np.exp(m - top)
            l_sum, o, m = l_sum * shrink, o * shrink, top
        weights = np.exp(piles[j] - m) if m > float("-inf") else np.zeros(len(piles[j]))
        l_sum += weights.sum()
        o += (weights[:, None] * values[j]).sum(axis=0)
    return o / l_sum
