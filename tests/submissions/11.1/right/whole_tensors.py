# Whole tensors: their quotient is float32.
import torch


def page_waste(lengths, page_size, *, layers, kv_heads, head_dim, b):
    n = torch.tensor(lengths, dtype=torch.int64)
    pages = torch.ceil(n / page_size).long()
    empty = pages * page_size - n
    slot = 2 * layers * kv_heads * head_dim * b
    return pages.sum().item() * page_size * slot, empty.sum().item() * slot
