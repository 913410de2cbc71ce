# q.shape[1] is d in 2-D only: in 4-D it is the number of heads.
# Expected: misconception: dimensions are counted from the left
import math

import torch


def scale_queries_first(q, k, v):
    q = q / math.sqrt(q.shape[1])
    p = torch.softmax(q @ k.mT, dim=-1)
    return p @ v
