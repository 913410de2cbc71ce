# Q and O are counted for the key heads only.
# Expected: misconception: Q and O have kv_heads heads
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    return 2 * kv_heads * (n_q + n_k) * d * itemsize
