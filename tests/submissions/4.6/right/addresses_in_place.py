# No helpers; short last tiles instead of masks; the last tile of keys first.
import numpy as np


def flash_program(
    pid, memory, q, k, v, o, q_head, q_row, k_head, k_row, v_head, v_row, o_head, o_row,
    n_q, n_k, scale, head_dim, block_q, block_k,
):  # fmt: skip
    i, h = pid
    rows = np.arange(i * block_q, min((i + 1) * block_q, n_q))[:, None]
    cols = np.arange(head_dim)
    q_tile = memory.load(q + h * q_head + rows * q_row + cols) * scale
    m, l_sum, acc = np.full((len(rows), 1), -np.inf), 0.0, 0.0
    for j in reversed(range(0, n_k, block_k)):
        keys = np.arange(j, min(j + block_k, n_k))[:, None]
        s = q_tile @ memory.load(k + h * k_head + keys * k_row + cols).T
        m_new = np.maximum(m, s.max(axis=1, keepdims=True))
        p, alpha = np.exp(s - m_new), np.exp(m - m_new)
        l_sum = alpha * l_sum + p.sum(axis=1, keepdims=True)
        acc = alpha * acc + p @ memory.load(v + h * v_head + keys * v_row + cols)
        m = m_new
    memory.store(o + h * o_head + rows * o_row + cols, acc / l_sum)
