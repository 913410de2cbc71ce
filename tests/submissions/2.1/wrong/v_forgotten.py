# K without V.
# Expected: misconception: K or V is forgotten
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    q = heads * n_q * d
    k = kv_heads * n_k * d
    return (2 * q + k) * itemsize
