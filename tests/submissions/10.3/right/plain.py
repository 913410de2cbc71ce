# A loop over the splits with m and l by hand; empty splits are skipped.
import math

import torch


def split_decode(q, k, v, splits):
    batch, heads, _, d = q.shape
    kv_heads, n_k = k.shape[1], k.shape[2]
    group = heads // kv_heads
    size = math.ceil(n_k / splits)
    rows = q.view(batch, kv_heads, group, d)
    o_parts = q.new_zeros(splits, batch, heads, 1, d)
    lse_parts = q.new_full((splits, batch, heads, 1), -math.inf)
    for i in range(splits):
        start, stop = i * size, min((i + 1) * size, n_k)
        if start >= stop:
            continue
        s = rows @ k[:, :, start:stop].mT / math.sqrt(d)
        m = s.amax(-1, keepdim=True)
        p = torch.exp(s - m)
        l_sum = p.sum(-1, keepdim=True)
        o_i = p @ v[:, :, start:stop] / l_sum
        lse_i = m + torch.log(l_sum)
        o_parts[i] = o_i.view(batch, heads, 1, d)
        lse_parts[i] = lse_i.view(batch, heads, 1)
    top = lse_parts.amax(0)
    weights = torch.exp(lse_parts - top)
    total = weights.sum(0)
    weights = weights / total
    o = (weights[..., None] * o_parts).sum(0)
    lse = top + torch.log(total)
    return o_parts, lse_parts, o, lse
