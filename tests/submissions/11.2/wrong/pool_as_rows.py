# The whole pool as rows of each head, for one sequence.
# Expected: property: copies only its own pages
import torch


def gather_pages(pages, table, length):
    n_pages, kv_heads, page_size, d = pages.shape
    rows = pages.transpose(0, 1).reshape(kv_heads, n_pages * page_size, d)
    t = torch.arange(length)
    return rows[:, table[t // page_size].long() * page_size + t % page_size]
