# The plain way: wrong.diff holds edits of this file.
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    q = heads * n_q * d
    k = kv_heads * n_k * d
    return (2 * q + 2 * k) * itemsize
