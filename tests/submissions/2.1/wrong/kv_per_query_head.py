# K and V are counted for every query head.
# Expected: misconception: K and V are counted once per query head
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    return 2 * heads * (n_q + n_k) * d * itemsize
