# o is the answer so far after every tile; lse is carried.
import numpy as np


def attend_q_tile(q_tile, k, v, block_k):
    lse = np.full(len(q_tile), -np.inf)
    o = np.zeros_like(q_tile)
    for j in range(0, len(k), block_k):
        s = q_tile @ k[j : j + block_k].T / np.sqrt(q_tile.shape[1])
        new = np.logaddexp(lse, np.logaddexp.reduce(s, axis=1))
        o = np.exp(lse - new)[:, None] * o + np.exp(s - new[:, None]) @ v[j : j + block_k]
        lse = new
    return o
