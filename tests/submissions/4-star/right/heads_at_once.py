# All heads at once; shared heads repeated tile by tile; keys masked by a boolean table.
import numpy as np


def windowed_gqa_attention(q, k, v, window, block_q, block_k):
    (h, n_q, d), (h_kv, n_k, _) = q.shape, k.shape
    share = h // h_kv
    out = np.empty_like(q)
    for i in range(0, n_q, block_q):
        at = np.arange(i, min(i + block_q, n_q)) + n_k - n_q
        m = np.full((h, len(at), 1), -1e30)
        l_sum, acc = np.zeros_like(m), np.zeros((h, len(at), d))
        for j in range(0, n_k, block_k):
            keys = np.arange(j, min(j + block_k, n_k))
            seen = (keys <= at[:, None]) & (keys > at[:, None] - window)
            if not seen.any():
                continue
            s = (
                np.einsum("hid,hjd->hij", q[:, i : i + block_q], np.repeat(k[:, keys], share, 0))
                / d**0.5
            )
            m_new = np.maximum(m, np.where(seen, s, -1e30).max(axis=-1, keepdims=True))
            p = np.where(seen, np.exp(s - m_new), 0.0)
            l_sum = np.exp(m - m_new) * l_sum + p.sum(axis=-1, keepdims=True)
            acc = np.exp(m - m_new) * acc + p @ np.repeat(v[:, keys], share, axis=0)
            m = m_new
        out[:, i : i + block_q] = acc / l_sum
    return out
