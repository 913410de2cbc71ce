# One walk for the maxima, a second one for the sums.
# Expected: property: loads k once
import numpy as np


def attend_q_tile(q_tile, k, v, block_k):
    tiles = [slice(j, j + block_k) for j in range(0, len(k), block_k)]
    c = 1 / np.sqrt(q_tile.shape[1])
    m = np.max([np.max(q_tile @ k[t].T, axis=1) for t in tiles], axis=0) * c
    l_sum = o = 0
    for t in tiles:
        p = np.exp(q_tile @ k[t].T * c - m[:, None])
        l_sum = l_sum + p.sum(axis=1)
        o = o + p @ v[t]
    return (o.T / l_sum).T
