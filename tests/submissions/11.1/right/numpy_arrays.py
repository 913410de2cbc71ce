# Arrays of NumPy's; the empty slots from the remainder.
import numpy as np


def page_waste(lengths, page_size, *, layers, kv_heads, head_dim, b):
    n = np.asarray(lengths, dtype=np.int64)
    pages = np.ceil(n / page_size).astype(np.int64)
    empty = -n % page_size
    slot = 2 * layers * kv_heads * head_dim * b
    return pages.sum() * page_size * slot, empty.sum() * slot
