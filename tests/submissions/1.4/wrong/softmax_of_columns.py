# dim=-2.
# Expected: misconception: softmax over the wrong axis
import math

import torch


def scale_queries_first(q, k, v):
    q = q / math.sqrt(q.shape[-1])
    p = torch.softmax(q @ k.mT, dim=-2)
    return p @ v
