# torch.matmul, functional softmax, and a power for the root.
import torch
import torch.nn.functional as F


def four_trip_attention(q, k, v):
    scale = q.shape[-1] ** -0.5
    scores = torch.matmul(q * scale, k.transpose(-1, -2))
    return torch.matmul(F.softmax(scores, dim=-1), v)
