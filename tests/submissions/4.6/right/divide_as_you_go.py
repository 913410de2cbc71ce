# acc is the answer so far; p is 0 past the end; float64 inside.
import numpy as np


def table(base, rows, stride, head_dim):
    return base + np.add.outer(rows * stride, np.arange(head_dim))


def flash_program(pid, memory, q, k, v, o, q_head, q_row, k_head, k_row, v_head, v_row,
                  o_head, o_row, n_q, n_k, scale, head_dim, block_q, block_k):  # fmt: skip
    rows = pid[0] * block_q + np.arange(block_q)
    inside = (rows < n_q)[:, None]
    q_tile = memory.load(table(q + pid[1] * q_head, rows, q_row, head_dim), inside, 0.0)
    q_tile = q_tile.astype(np.float64)
    lse, acc = np.full(block_q, -np.inf), np.zeros((block_q, head_dim))
    for start in range(0, n_k, block_k):
        keys = start + np.arange(block_k)
        real = (keys < n_k)[:, None]
        k_tile = memory.load(table(k + pid[1] * k_head, keys, k_row, head_dim), real)
        v_tile = memory.load(table(v + pid[1] * v_head, keys, v_row, head_dim), real)
        s = np.einsum("id,jd->ij", q_tile, k_tile) * scale
        s[:, ~real[:, 0]] = -np.inf
        new = np.logaddexp(lse, np.logaddexp.reduce(s, axis=1))
        acc = np.exp(lse - new)[:, None] * acc + np.exp(s - new[:, None]) @ v_tile
        lse = new
    memory.store(table(o + pid[1] * o_head, rows, o_row, head_dim), acc, mask=inside)
