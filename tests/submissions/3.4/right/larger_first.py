# The one with the larger maximum stays as it is.
import numpy as np


def merge(a, b):
    if a[0] < b[0]:
        a, b = b, a
    if b[1] == 0:
        return a
    shrink = np.exp(b[0] - a[0])
    return a[0], a[1] + shrink * b[1], a[2] + shrink * b[2]
