# Only what is read.
# Expected: misconception: O is forgotten
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    q = heads * n_q * d
    k = kv_heads * n_k * d
    return (q + 2 * k) * itemsize
