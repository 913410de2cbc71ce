# The plain way: wrong.diff holds edits of this file.
def trip_bytes(n, d, itemsize):
    s = n * n * itemsize
    qkvo = 4 * n * d * itemsize
    total = qkvo + 4 * s
    return {
        "qkvo": qkvo,
        "write_s": s,
        "read_s": s,
        "write_p": s,
        "read_p": s,
        "total": total,
        "total_gb": total / 1e9,
        "s_mib": s / 2**20,
    }
