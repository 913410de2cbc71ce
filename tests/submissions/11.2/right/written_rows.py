# Rows written into a tensor that was made for them.
import torch


def gather_pages(pages, table, length):
    n_pages, heads, page_size, d = pages.shape
    rows = torch.empty((heads, length, d), dtype=pages.dtype)
    for t in range(length):
        rows[:, t] = pages[table[t // page_size], :, t % page_size]
    return rows
