# exp, sum and division are trips of their own.
# Expected: property: makes four trips
import math

import torch


def scale_queries_first(q, k, v):
    q = q / math.sqrt(q.shape[-1])
    s = q @ k.mT
    e = torch.exp(s - s.amax(-1, keepdim=True))
    p = e / e.sum(-1, keepdim=True)
    return p @ v
