# The plain way: right.diff and wrong.diff hold edits of this file.
import numpy as np


def load_tile(memory, base, rows, n_rows, stride_row, head_dim):
    cols = np.arange(head_dim)
    at = base + rows[:, None] * stride_row + cols[None, :]
    return memory.load(at, mask=rows[:, None] < n_rows, other=0.0)


def store_tile(memory, base, tile, rows, n_rows, stride_row, head_dim):
    cols = np.arange(head_dim)
    at = base + rows[:, None] * stride_row + cols[None, :]
    memory.store(at, tile, mask=rows[:, None] < n_rows)


def flash_program(
    pid, memory, q, k, v, o,
    q_head, q_row, k_head, k_row, v_head, v_row, o_head, o_row,
    n_q, n_k, scale, head_dim, block_q, block_k,
):  # fmt: skip
    tile, head = pid
    q = q + head * q_head
    k = k + head * k_head
    v = v + head * v_head
    o = o + head * o_head
    rows = tile * block_q + np.arange(block_q)
    q_tile = load_tile(memory, q, rows, n_q, q_row, head_dim)
    m = np.full(block_q, -np.inf)
    l_sum = np.zeros(block_q)
    acc = np.zeros((block_q, head_dim))
    for start in range(0, n_k, block_k):
        keys = start + np.arange(block_k)
        k_tile = load_tile(memory, k, keys, n_k, k_row, head_dim)
        v_tile = load_tile(memory, v, keys, n_k, v_row, head_dim)
        s = q_tile @ k_tile.T * scale
        s = np.where(keys[None, :] < n_k, s, -np.inf)
        m_new = np.maximum(m, s.max(axis=1))
        alpha = np.exp(m - m_new)
        p = np.exp(s - m_new[:, None])
        l_sum = alpha * l_sum + p.sum(axis=1)
        acc = alpha[:, None] * acc + p @ v_tile
        m = m_new
    store_tile(memory, o, acc / l_sum[:, None], rows, n_q, o_row, head_dim)
