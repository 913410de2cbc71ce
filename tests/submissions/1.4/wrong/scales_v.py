# The scale is moved to v, past the softmax.
# Expected: misconception: the weights are scaled, not the scores
import math

import torch


def scale_queries_first(q, k, v):
    p = torch.softmax(q @ k.mT, dim=-1)
    return p @ (v / math.sqrt(q.shape[-1]))
