# One head only.
# Expected: misconception: one head only
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    return 2 * (n_q + n_k) * d * itemsize
