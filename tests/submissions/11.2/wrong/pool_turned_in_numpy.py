# The whole pool is turned round, in NumPy, where no tensor is made.
# Expected: property: hides nothing from the ledger
import numpy as np
import torch


def gather_pages(pages, table, length):
    n_pages, heads, page_size, d = pages.shape
    pool = pages.float().numpy() if pages.dtype == torch.bfloat16 else pages.numpy()
    rows = np.ascontiguousarray(pool.transpose(1, 0, 2, 3)).reshape(heads, n_pages * page_size, d)
    tokens = np.arange(length)
    at = table.numpy()[tokens // page_size].astype(np.int64) * page_size + tokens % page_size
    return torch.from_numpy(rows[:, at].copy()).to(pages.dtype)
