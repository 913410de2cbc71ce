# Rows by their numbers; the output is made like Q; whole tiles, padded one by one and masked.
import numpy as np


def tiled_attention(q, k, v, block_q, block_k):
    out = np.zeros_like(q)
    n_q, d = np.shape(q)
    for i in range(-(-n_q // block_q)):
        rows = np.arange(i * block_q, min((i + 1) * block_q, n_q))
        q_tile = q[rows] * d**-0.5
        m, l_sum, acc = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(q_tile.shape)
        for j in range(-(-k.shape[0] // block_k)):
            keys = j * block_k + np.arange(block_k)
            real = keys < len(k)
            k_tile, v_tile = np.zeros((2, block_k, d))
            k_tile[real], v_tile[real] = k[keys[real]], v[keys[real], :]
            s = np.where(real, q_tile @ k_tile.T, -np.inf)
            m_new = np.maximum(m, s.max(axis=1))
            p, alpha = np.exp(s - m_new[:, None]), np.exp(m - m_new)
            l_sum, acc, m = l_sum * alpha + p.sum(1), acc * alpha[:, None] + p @ v_tile, m_new
        out[rows] = acc / l_sum[:, None]
    return out
