# n_q rows for K and V as well.
# Expected: misconception: K and V have n_k rows
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    return 2 * (heads + kv_heads) * n_q * d * itemsize
