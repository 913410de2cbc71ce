# Tiles of full size: rows and keys past the end are padded, keys masked.
# Expected: property: one tile at a time
import numpy as np


def tiled_attention(q, k, v, block_q, block_k):
    (n_q, d), n_k = q.shape, len(k)
    t_q, t_k = -(-n_q // block_q), -(-n_k // block_k)
    q = np.pad(q, ((0, t_q * block_q - n_q), (0, 0))).reshape(t_q, block_q, d)
    k = np.pad(k, ((0, t_k * block_k - n_k), (0, 0))).reshape(t_k, block_k, d)
    v = np.pad(v, ((0, t_k * block_k - n_k), (0, 0))).reshape(t_k, block_k, -1)
    out = np.empty((t_q, block_q, v.shape[-1]))
    for i in range(t_q):
        m, l_sum, acc = np.full(block_q, -np.inf), np.zeros(block_q), np.zeros(out[i].shape)
        for j in range(t_k):
            s = q[i] @ k[j].T / np.sqrt(d)
            s[:, j * block_k + np.arange(block_k) >= n_k] = -np.inf
            m_new = np.maximum(m, s.max(1))
            p = np.exp(s - m_new[:, None])
            l_sum = np.exp(m - m_new) * l_sum + p.sum(1)
            acc = np.exp(m - m_new)[:, None] * acc + p @ v[j]
            m = m_new
        out[i] = acc / l_sum[:, None]
    return out.reshape(t_q * block_q, -1)[:n_q]
