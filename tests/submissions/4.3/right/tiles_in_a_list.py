# Two functions, Q tiles last one first, np.concatenate at the end.
import numpy as np


def answer(q, k, v, block_k):
    m, l_sum, o = -np.inf, 0.0, 0.0
    for j in reversed(range(0, len(k), block_k)):
        s = np.inner(q, k[j : j + block_k]) / np.sqrt(q.shape[-1])
        m_new = np.maximum(m, s.max(axis=1))
        alpha = np.exp(m - m_new)
        p = np.exp(s.T - m_new)
        l_sum = l_sum * alpha + p.sum(axis=0)
        o = o * alpha + v[j : j + block_k].T @ p
        m = m_new
    return (o / l_sum).T


def tiled_attention(q, k, v, block_q, block_k):
    starts = range(0, len(q), block_q)
    done = {i: answer(q[i : i + block_q], k, v, block_k) for i in reversed(starts)}
    return np.concatenate([done[i] for i in starts])
