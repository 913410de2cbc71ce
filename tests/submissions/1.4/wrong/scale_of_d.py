# Divided by d.
# Expected: misconception: scaled twice
# Equivalence class: dividing twice by sqrt(d) is dividing by d.
import torch


def scale_queries_first(q, k, v):
    q = q / q.shape[-1]
    p = torch.softmax(q @ k.mT, dim=-1)
    return p @ v
