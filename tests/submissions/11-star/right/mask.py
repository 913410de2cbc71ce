# A mask of booleans over the rows, and SDPA.
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
    rows = torch.arange(k.shape[2])
    stays = (rows < sinks) | (rows >= len(rows) - window)
    k, v = k[:, :, stays], v[:, :, stays]
    places = torch.arange(k.shape[2])
    o = F.scaled_dot_product_attention(rotate(q, places[-1:]), rotate(k, places), v)
    return o, torch.nonzero(stays).flatten()
