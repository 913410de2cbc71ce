# The softmax is computed again, and lse is not used.
# Expected: misconception: the softmax is computed again
import torch


def rebuild_weights(q, k, lse, i, j, *, block_q, block_k):
    rows = slice(i * block_q, (i + 1) * block_q)
    keys = slice(j * block_k, (j + 1) * block_k)
    s = q @ k.T * q.shape[-1] ** -0.5
    return torch.softmax(s, -1)[rows, keys]
