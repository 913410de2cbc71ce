# The tile's mask is made and looked at.
import numpy as np


def classify_tile(row_start, row_stop, col_start, col_stop, offset=0):
    queries = np.arange(row_start, row_stop) + offset
    keys = np.arange(col_start, col_stop)
    allowed = keys[None, :] <= queries[:, None]
    if allowed.all():
        return "full"
    return "partial" if allowed.any() else "skip"
