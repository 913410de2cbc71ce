# The division is gone altogether.
# Expected: misconception: the scale is missing
import torch


def scale_queries_first(q, k, v):
    p = torch.softmax(q @ k.mT, dim=-1)
    return p @ v
