# GB by powers of two, MiB by powers of ten.
# Expected: misconception: MiB and GB the wrong way round
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
        "total_gb": total / 2**30,
        "s_mib": s / 10**6,
    }
