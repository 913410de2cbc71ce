# A loop that knows one dimension only.
# Expected: property: the shape
import numpy as np


def echo(x):
    y = []
    for i in range(x.size):
        y.append(x.flat[i])
    return np.array(y)
