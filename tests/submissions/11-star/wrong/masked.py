# All rows are there, and those evicted are masked: 0 * NaN is NaN.
# Expected: misconception: evicted rows are masked, not left out
import torch


def rotate(x, positions):
    half = x.shape[-1] // 2
    speeds = 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    angles = positions[:, None] * speeds
    a, b = x[..., :half], x[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def keep_rows(q, k, v, sinks, window):
    n = k.shape[2]
    rows = torch.arange(n)
    stays = (rows < sinks) | (rows >= n - window)
    places = stays.cumsum(0) - 1
    s = rotate(q, places[-1:]) @ rotate(k, places).mT / q.shape[-1] ** 0.5
    s = s.masked_fill(~stays, float("-inf"))
    return torch.softmax(s, -1) @ v, rows[stays]
