# k.T reverses all four dimensions.
# Expected: verdict: error
import math

import torch


def scale_queries_first(q, k, v):
    q = q / math.sqrt(q.shape[-1])
    p = torch.softmax(q @ k.permute(*range(k.dim() - 1, -1, -1)), dim=-1)
    return p @ v
