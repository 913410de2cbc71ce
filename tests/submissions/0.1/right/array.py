# np.array copies by default.
import numpy as np


def echo(x):
    return np.array(x)
