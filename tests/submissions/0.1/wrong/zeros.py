# A new array, and x's numbers forgotten.
# Expected: misconception: room without numbers
import numpy as np


def echo(x):
    y = np.zeros_like(x)
    return y
