# q /= changes the caller's q.
# Expected: property: leaves its inputs alone
import math

import torch


def scale_queries_first(q, k, v):
    q /= math.sqrt(q.shape[-1])
    p = torch.softmax(q @ k.mT, dim=-1)
    return p @ v
