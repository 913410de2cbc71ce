# Row by row, whatever a row is.
import numpy as np


def echo(x):
    return np.array([x[i] for i in range(len(x))], dtype=x.dtype)
