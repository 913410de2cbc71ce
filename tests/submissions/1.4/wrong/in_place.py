# /= passes over the scores as well.
# Expected: property: makes four trips
import math

import torch


def scale_queries_first(q, k, v):
    s = q @ k.mT
    s /= math.sqrt(q.shape[-1])
    p = torch.softmax(s, dim=-1)
    return p @ v
