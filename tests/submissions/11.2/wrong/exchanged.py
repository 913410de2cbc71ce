# // and % the wrong way round.
# Expected: misconception: page and slot are exchanged
import torch


def gather_pages(pages, table, length):
    t = torch.arange(length)
    page_size = pages.size(2)
    return pages[table[t % page_size].long(), :, t // page_size].permute(1, 0, 2)
