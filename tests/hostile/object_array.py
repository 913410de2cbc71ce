# tries: return an array of Python objects; must: incorrect
import numpy as np


def echo(x):
    out = np.empty(x.shape, object)
    out[...] = print
    return out
