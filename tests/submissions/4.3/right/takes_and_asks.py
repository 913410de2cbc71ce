# Rows by np.take and np.split, and questions about types and memory, which read nothing.
import numpy as np


def tiled_attention(q, k, v, block_q, block_k):
    dtype = np.result_type(q, k, v, np.float64)
    assert not np.iscomplexobj(k) and not np.may_share_memory(k, v)
    assert q.nbytes == q.size * q.itemsize and len(q.strides) == q.ndim
    o = np.zeros((q.shape[0], v.shape[1]), dtype)
    ends = np.arange(block_k, len(k), block_k)
    for i in range(0, len(q), block_q):
        rows = np.arange(i, min(i + block_q, len(q)))
        q_tile = np.array(np.take(q, rows, axis=0))
        m = np.full(len(rows), -np.inf)
        l_sum = np.zeros(len(rows))
        acc = np.zeros((len(rows), v.shape[1]))
        for k_tile, v_tile in zip(np.split(k, ends), np.split(v, ends)):
            s = q_tile @ k_tile.T / np.sqrt(q.shape[1])
            m_new = np.maximum(m, s.max(axis=1))
            alpha = np.exp(m - m_new)
            p = np.exp(s - m_new[:, None])
            l_sum = alpha * l_sum + p.sum(axis=1)
            acc = alpha[:, None] * acc + p @ v_tile
            m = m_new
        o[rows] = acc / l_sum[:, None]
    return o
