# Each tile's own softmax, averaged.
# Expected: misconception: tile answers are averaged
import numpy as np


def attend_q_tile(q_tile, k, v, block_k):
    answers = []
    for start in range(0, len(k), block_k):
        s = q_tile @ k[start : start + block_k].T / np.sqrt(q_tile.shape[1])
        p = np.exp(s - s.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        answers.append(p @ v[start : start + block_k])
    return np.mean(answers, axis=0)
