# What is hidden is multiplied by 0.
# Expected: misconception: what is hidden has score zero
import math

import torch


def append_token(q, k_new, v_new, k_cache, v_cache, lengths):
    batch = torch.arange(len(lengths))
    k_cache[batch, :, lengths] = k_new[:, :, 0]
    v_cache[batch, :, lengths] = v_new[:, :, 0]
    seen = torch.arange(k_cache.shape[2]) <= lengths[:, None]
    scores = q @ k_cache.mT / math.sqrt(q.shape[-1]) * seen[:, None, None]
    return torch.softmax(scores, -1) @ v_cache
