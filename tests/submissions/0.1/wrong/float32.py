# Another dtype.
# Expected: property: the dtype
import numpy as np


def echo(x):
    return x.astype(np.float32)
