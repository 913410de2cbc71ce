# The merged o without m and l_sum.
# Expected: property: returns a tuple
import numpy as np


def merge(a, b):
    m = max(a[0], b[0])
    base = 0.0 if m == -np.inf else m
    return np.exp(a[0] - base) * a[2] + np.exp(b[0] - base) * b[2]
