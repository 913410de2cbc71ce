# torch.einsum for both products.
import torch


def four_trip_attention(q, k, v):
    q = q.clone().div_(q.shape[-1] ** 0.5)
    p = torch.softmax(torch.einsum("...qd,...kd->...qk", q, k), dim=-1)
    return torch.einsum("...qk,...kd->...qd", p, v)
