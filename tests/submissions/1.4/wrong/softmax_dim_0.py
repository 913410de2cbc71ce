# dim=0 is the queries in 2-D.
# Expected: misconception: softmax over the wrong axis
import math

import torch


def scale_queries_first(q, k, v):
    q = q / math.sqrt(q.shape[-1])
    p = torch.softmax(q @ k.mT, dim=0)
    return p @ v
