# A number, not a dict.
# Expected: property: the form
def trip_bytes(n, d, itemsize):
    s = n * n * itemsize
    qkvo = 4 * n * d * itemsize
    total = qkvo + 4 * s
    return total
