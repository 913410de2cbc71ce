# Tensors, and math.ceil is torch's.
import torch


def page_waste(lengths, page_size, *, layers, kv_heads, head_dim, b):
    n = torch.tensor(lengths, dtype=torch.float64)
    reserved = torch.ceil(n / page_size).sum() * page_size
    return torch.stack([reserved, reserved - n.sum()]) * (2 * layers * kv_heads * head_dim * b)
