# A page and a slot for each token, in one look-up.
import torch


def gather_pages(pages, table, length):
    t = torch.arange(length)
    page_size = pages.size(2)
    rows = pages[table[t // page_size].long(), :, t % page_size]  # (length, H_kv, d)
    return rows.permute(1, 0, 2).contiguous()
