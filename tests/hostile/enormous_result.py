# tries: return a view that is small here and enormous elsewhere; must: incorrect, error
# before a careless grader: takes the memory
import numpy as np


def echo(x):
    return np.broadcast_to(x.ravel()[:1], (1 << 40,))
