# The scores are still divided.
# Expected: property: makes four trips
import math

import torch


def scale_queries_first(q, k, v):
    p = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
    return p @ v
