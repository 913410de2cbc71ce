# Only distances count: the query stands at 0, and the keys before it.
import torch
import torch.nn.functional as F


def rotate(x, positions):
    half = x.shape[-1] // 2
    speeds = 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    angles = positions[:, None] * speeds
    a, b = x[..., :half], x[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def keep_rows(q, k, v, sinks, window):
    n = k.shape[2]
    kept = sorted({*range(min(sinks, n)), *range(max(0, n - window), n)})
    back = torch.arange(len(kept)) - (len(kept) - 1)
    k = rotate(k[..., kept, :], back)
    return F.scaled_dot_product_attention(q, k, v[..., kept, :]), kept
