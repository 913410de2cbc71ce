# Multiplied by sqrt(d).
# Expected: misconception: the scale is upside down
import math

import torch


def scale_queries_first(q, k, v):
    q = q * math.sqrt(q.shape[-1])
    p = torch.softmax(q @ k.mT, dim=-1)
    return p @ v
