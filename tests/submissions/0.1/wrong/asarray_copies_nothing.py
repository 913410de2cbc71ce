# np.asarray of an array is that array.
# Expected: property: returns new memory
import numpy as np


def echo(x):
    return np.asarray(x)
