# The plain way: wrong.diff holds edits of this file.
import math

import torch


def four_trip_attention(q, k, v):
    q = q / math.sqrt(q.shape[-1])
    p = torch.softmax(q @ k.mT, dim=-1)
    return p @ v
