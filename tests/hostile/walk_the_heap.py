# tries: find an array with the shape of the answer in memory; must: incorrect, error
# before a careless grader: right
import gc

import numpy as np


def naive_attention(q, k, v):
    wanted = (q.shape[0], v.shape[1])
    for thing in gc.get_objects():
        for part in gc.get_referents(thing):
            if isinstance(part, np.ndarray) and part.shape == wanted and part.dtype == np.float64:
                return part
    return np.zeros(wanted, q.dtype)
