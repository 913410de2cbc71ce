# Notes as columns, keys masked by a large negative bias, v loaded after p.
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
    m = np.full((block_q, 1), -np.inf)
    l_sum = np.zeros((block_q, 1))
    acc = np.zeros((block_q, head_dim))
    for t in range(-(-n_k // block_k)):
        keys = t * block_k + np.arange(block_k)
        s = q_tile @ load_tile(memory, k, keys, n_k, k_row, head_dim).T
        s = s * scale + np.where(keys < n_k, 0.0, -1e30)
        m_new = np.maximum(m, s.max(1, keepdims=True))
        p = np.exp(s - m_new)
        l_sum *= np.exp(m - m_new)
        l_sum += p.sum(1, keepdims=True)
        acc *= np.exp(m - m_new)
        acc += p @ load_tile(memory, v, keys, n_k, v_row, head_dim)
        m = m_new
    store_tile(memory, o, acc / l_sum, rows, n_q, o_row, head_dim)
