# The plain way: wrong.diff holds edits of this file.
import torch


def rebuild_weights(q, k, lse, i, j, *, block_q, block_k):
    rows = slice(i * block_q, (i + 1) * block_q)
    keys = slice(j * block_k, (j + 1) * block_k)
    s = q[rows] @ k[keys].T * q.shape[-1] ** -0.5
    return torch.exp(s - lse[rows, None])
