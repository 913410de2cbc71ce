# The plain way: right.diff and wrong.diff hold edits of this file.
import numpy as np


def windowed_gqa_attention(q, k, v, window, block_q, block_k):
    n_heads, n_q, d = q.shape
    kv_heads, n_k, _ = k.shape
    out = np.zeros((n_heads, n_q, d))
    for head in range(n_heads):
        kv_head = head // (n_heads // kv_heads)
        for start in range(0, n_q, block_q):
            rows = np.arange(start, min(start + block_q, n_q))
            at = rows + n_k - n_q
            m = np.full(len(rows), -np.inf)
            l_sum = np.zeros(len(rows))
            o = np.zeros((len(rows), d))
            first = max(0, at[0] - window + 1) // block_k * block_k
            for j in range(first, at[-1] + 1, block_k):
                keys = np.arange(j, min(j + block_k, n_k))
                back = at[:, None] - keys[None, :]
                s = q[head, rows] @ k[kv_head, keys].T / np.sqrt(d)
                s = np.where((back >= 0) & (back < window), s, -np.inf)
                m_new = np.maximum(m, s.max(axis=1))
                base = np.where(m_new == -np.inf, 0.0, m_new)
                alpha = np.exp(m - base)
                p = np.exp(s - base[:, None])
                l_sum = alpha * l_sum + p.sum(axis=1)
                o = alpha[:, None] * o + p @ v[kv_head, keys]
                m = m_new
            out[head, rows] = o / l_sum[:, None]
    return out
