# K is seen as columns, and a tile is used twice while it lies there.
import numpy as np


def attend_q_tile(q_tile, k, v, block_k):
    n_rows, d = q_tile.shape
    columns = k.T
    m, l_sum, o = np.full((n_rows, 1), -np.inf), np.zeros((n_rows, 1)), np.zeros_like(q_tile)
    for start in range(0, k.shape[0], block_k):
        stop = min(start + block_k, len(k))
        s = q_tile @ columns[:, start:stop] / np.sqrt(d)
        assert s.shape[1] == len(v[start:stop])
        m_new = np.maximum(m, s.max(axis=1, keepdims=True))
        p, alpha = np.exp(s - m_new), np.exp(m - m_new)
        l_sum, o, m = alpha * l_sum + p.sum(1, keepdims=True), alpha * o + p @ v[start:stop], m_new
    return o / l_sum
