# -1e4 stands for -inf.
# Expected: misconception: a hidden score is not -inf
import math

import torch


def append_token(q, k_new, v_new, k_cache, v_cache, lengths):
    batch = torch.arange(len(lengths))
    k_cache[batch, :, lengths] = k_new[:, :, 0]
    v_cache[batch, :, lengths] = v_new[:, :, 0]
    behind = torch.arange(k_cache.shape[2]) > lengths[:, None]
    scores = q @ k_cache.mT / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(behind[:, None, None], -1e4)
    return torch.softmax(scores, -1) @ v_cache
