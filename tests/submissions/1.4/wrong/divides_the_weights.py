# q is scaled, and the weights are cleaned up once more.
# Expected: property: makes four trips
import math

import torch


def scale_queries_first(q, k, v):
    q = q / math.sqrt(q.shape[-1])
    p = torch.softmax(q @ k.mT, dim=-1)
    p = p / p.sum(-1, keepdim=True)
    return p @ v
