# The number with its unit.
# Expected: property: the form
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    q = heads * n_q * d
    k = kv_heads * n_k * d
    return f"{(2 * q + 2 * k) * itemsize} bytes"
