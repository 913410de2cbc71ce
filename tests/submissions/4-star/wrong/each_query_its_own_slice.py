# Each query loads exactly its own keys: neighbours load the same ones again.
# Expected: property: takes whole tiles
import numpy as np


def windowed_gqa_attention(q, k, v, window, block_q, block_k):
    share = q.shape[0] // k.shape[0]
    out = np.zeros(q.shape)
    for head, i in np.ndindex(q.shape[:2]):
        end = i + k.shape[1] - q.shape[1] + 1
        m, l_sum, o = -np.inf, 0.0, np.zeros(q.shape[2])
        for j in range(max(0, end - window), end, block_k):
            keys = slice(j, min(j + block_k, end))
            s = k[head // share, keys] @ q[head, i] / np.sqrt(q.shape[2])
            m_new = max(m, s.max())
            p = np.exp(s - m_new)
            l_sum = l_sum * np.exp(m - m_new) + p.sum()
            o = o * np.exp(m - m_new) + p @ v[head // share, keys]
            m = m_new
        out[head, i] = o / l_sum
    return out
