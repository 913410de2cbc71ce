# Eager code's six trips, and K and V for every head.
# Expected: misconception: an algorithm is counted, not the bound
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    scores = 6 * n_q * n_k
    return heads * (2 * n_q * d + 2 * n_k * d + scores) * itemsize
