# NumPy scalars, floats for whole numbers, and a key of its own.
import numpy as np


def trip_bytes(n, d, itemsize):
    s = np.float64(n) ** 2 * itemsize
    qkvo = np.int64(4 * itemsize) * n * d
    total = 4 * s + qkvo
    books = dict.fromkeys(["write_s", "read_s", "write_p", "read_p"], s)
    books |= {"qkvo": qkvo, "total": total, "total_gb": total * 1e-9, "s_mib": np.ldexp(s, -20)}
    return books | {"trips": 4}
