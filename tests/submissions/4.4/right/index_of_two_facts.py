# Two facts, one index.
import numpy as np


def classify_tile(row_start, row_stop, col_start, col_stop, offset=0):
    some = row_stop - 1 + offset >= col_start
    every = row_start + offset >= col_stop - 1
    return np.array(["skip", "partial", "full"])[int(some) + int(every)]
