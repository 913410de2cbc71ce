# Rows are multiplied out, then attended to by hand.
import torch


def quantise(x):
    largest = x.abs().amax(-1, keepdim=True)
    scale = torch.where(largest > 0, largest / 127, torch.ones_like(largest))
    numbers = torch.round(x / scale).to(torch.int8)
    return numbers, scale


def attend(q, k, v):
    s = q @ k.mT / q.shape[-1] ** 0.5
    e = torch.exp(s - s.amax(-1, keepdim=True))
    p = e / e.sum(-1, keepdim=True)
    return p @ v


def int8_cache(q, k, v):
    q, k, v = q.float(), k.float(), v.float()
    k_rows, v_rows = quantise(k), quantise(v)
    k_kept = k_rows[0].float() * k_rows[1]
    v_kept = v_rows[0].float() * v_rows[1]
    o = attend(q, k_kept, v_kept)
    exact = attend(q, k, v)
    error = (o - exact).abs().max()
    return o, error, k_rows, v_rows
