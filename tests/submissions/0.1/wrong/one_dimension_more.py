# Brackets that add a dimension.
# Expected: property: the shape
import numpy as np


def echo(x):
    return np.array([x])
