# float everywhere: whole numbers and float32 change their dtype.
# Expected: property: the dtype
import numpy as np


def echo(x):
    return np.array(x, dtype=float)
