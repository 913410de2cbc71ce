# A part of the scale on q, a part on k.
import torch


def four_trip_attention(q, k, v):
    root = q.shape[-1] ** 0.25
    return torch.softmax((q / root) @ (k / root).mT, dim=-1) @ v
