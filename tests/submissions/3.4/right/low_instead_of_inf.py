# -inf is lowered to a finite number inside, and put back at the end.
import numpy as np


def merge(a, b):
    m = max(a[0], b[0])
    safe = max(m, -1e300)
    f = np.exp(np.array([a[0], b[0]]) - safe)
    return m, f @ [a[1], b[1]], f @ np.stack([a[2], b[2]])
