# A float32 answer to half-precision inputs.
# Expected: property: the dtype
import math

import torch


def scale_queries_first(q, k, v):
    q, k, v = q.float(), k.float(), v.float()
    q = q / math.sqrt(q.shape[-1])
    p = torch.softmax(q @ k.mT, dim=-1)
    return p @ v
