# Numbers with their unit, as text.
# Expected: property: the form
def trip_bytes(n, d, itemsize):
    s, qkvo = n * n * itemsize, 4 * n * d * itemsize
    trips = dict.fromkeys(("write_s", "read_s", "write_p", "read_p"), s)
    total = qkvo + 4 * s
    gb, mib = f"{total / 1e9} GB", f"{s / 2**20} MiB"
    return trips | {"qkvo": qkvo, "total": total, "total_gb": gb, "s_mib": mib}
