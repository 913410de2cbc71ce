# Reading a matrix moves it too.
# Expected: misconception: a reading counts nothing
def trip_bytes(n, d, itemsize):
    s = n * n * itemsize
    qkvo = 4 * n * d * itemsize
    total = qkvo + 2 * s
    return {
        "qkvo": qkvo,
        "write_s": s,
        "read_s": 0,
        "write_p": s,
        "read_p": 0,
        "total": total,
        "total_gb": total / 1e9,
        "s_mib": s / 2**20,
    }
