# Half precision is computed in float32 and rounded once.
import math

import torch


def four_trip_attention(q, k, v):
    dtype = q.dtype
    q, k, v = q.float(), k.float(), v.float()
    s = torch.matmul(q / math.sqrt(q.shape[-1]), k.mT)
    return torch.matmul(torch.softmax(s, -1), v).to(dtype)
