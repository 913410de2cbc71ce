# Lets NumPy do the sums.
import numpy as np


def backward_by_hand():
    q, k, v, do = (np.array(x, dtype=float) for x in ([2, 4], [0, np.log(3)], [6, 2], [2, 1]))
    p = np.exp(np.outer(q, k) / 2)
    p /= p.sum(axis=1)[:, None]
    delta = do * (p @ v)
    ds = p * (np.outer(do, v) - delta[:, None])
    return {"delta": delta, "dv": do @ p, "ds": ds, "dq": ds @ k / 2, "dk": q @ ds / 2}
