# A state for each tile, merged as in lesson 03.
import numpy as np


def state_of(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    m = s.max(axis=1)
    p = np.exp(s - m[:, None])
    return m, p.sum(axis=1), p @ v


def merge(a, b):
    m = np.maximum(a[0], b[0])
    f_a, f_b = np.exp(a[0] - m), np.exp(b[0] - m)
    return m, f_a * a[1] + f_b * b[1], f_a[:, None] * a[2] + f_b[:, None] * b[2]


def attend_q_tile(q_tile, k, v, block_k):
    state = state_of(q_tile, k[:block_k], v[:block_k])
    for j in range(block_k, len(k), block_k):
        state = merge(state, state_of(q_tile, k[j : j + block_k], v[j : j + block_k]))
    return state[2] / state[1][:, None]
