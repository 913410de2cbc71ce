# Powers of 2.
import math

import torch


def rebuild_weights(q, k, lse, i, j, *, block_q, block_k):
    r0, c0 = i * block_q, j * block_k
    r1, c1 = min(r0 + block_q, len(q)), min(c0 + block_k, len(k))
    s = q[r0:r1] @ k[c0:c1].mT * (math.log2(math.e) / math.sqrt(q.shape[-1]))
    return torch.exp2(s - lse[r0:r1, None] * math.log2(math.e))
