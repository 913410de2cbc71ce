# q is divided, and the scores as well.
# Expected: misconception: scaled twice
import math

import torch


def scale_queries_first(q, k, v):
    q = q / math.sqrt(q.shape[-1])
    p = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
    return p @ v
