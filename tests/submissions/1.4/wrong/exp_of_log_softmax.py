# log_softmax and exp are two operations.
# Expected: property: makes four trips
import math

import torch


def scale_queries_first(q, k, v):
    q = q / math.sqrt(q.shape[-1])
    p = torch.log_softmax(q @ k.mT, dim=-1).exp()
    return p @ v
