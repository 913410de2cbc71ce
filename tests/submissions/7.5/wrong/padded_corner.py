# The short corner is filled up with zeros.
# Expected: property: the shape
import torch


def rebuild_weights(q, k, lse, i, j, *, block_q, block_k):
    rows = slice(i * block_q, (i + 1) * block_q)
    keys = slice(j * block_k, (j + 1) * block_k)
    s = q[rows] @ k[keys].T * q.shape[-1] ** -0.5
    p = torch.zeros(block_q, block_k)
    p[: s.shape[0], : s.shape[1]] = torch.exp(s - lse[rows, None])
    return p
