# All of P, not one tile.
# Expected: property: the shape
import torch


def rebuild_weights(q, k, lse, i, j, *, block_q, block_k):
    rows = keys = slice(None)
    s = q[rows] @ k[keys].T * q.shape[-1] ** -0.5
    return torch.exp(s - lse[rows, None])
