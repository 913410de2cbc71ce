# Page by page: the rows in use of each, joined.
import torch


def gather_pages(pages, table, length):
    page_size = pages.shape[2]
    parts = [pages[0, :, :0]]  # so that there is something to join
    for start in range(0, length, page_size):
        page = int(table[start // page_size])
        filled = min(page_size, length - start)
        parts.append(pages[page, :, :filled])
    return torch.cat(parts, 1)
