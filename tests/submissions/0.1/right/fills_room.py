# Room first, then the numbers.
import numpy as np


def echo(x):
    y = np.empty_like(x)
    y[...] = x
    return y
