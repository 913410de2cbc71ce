# Each query head reads the keys of its group for itself.
# Expected: property: reads each cached byte once
import math

import torch


def split_decode(q, k, v, splits):
    batch, heads, _, d = q.shape
    group, n_k = heads // k.shape[1], k.shape[2]
    size = math.ceil(n_k / splits)
    o_parts = q.new_zeros(splits, *q.shape)
    lse_parts = q.new_full((splits, batch, heads, 1), -math.inf)
    for i in range(splits):
        for head in range(heads):
            keys = slice(i * size, (i + 1) * size)
            s = q[:, head] @ k[:, head // group, keys].mT / math.sqrt(d)
            o_parts[i, :, head] = torch.softmax(s, -1) @ v[:, head // group, keys]
            lse_parts[i, :, head] = torch.logsumexp(s, -1)
    lse = torch.logsumexp(lse_parts, 0)
    o = (torch.exp(lse_parts - lse)[..., None] * o_parts).sum(0)
    return o_parts, lse_parts, o, lse
