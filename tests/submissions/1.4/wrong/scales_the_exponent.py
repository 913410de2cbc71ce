# The multiplication is still one over all scores.
# Expected: property: makes four trips
import torch


def scale_queries_first(q, k, v):
    p = torch.softmax((q @ k.mT).mul(q.shape[-1] ** -0.5), dim=-1)
    return p @ v
