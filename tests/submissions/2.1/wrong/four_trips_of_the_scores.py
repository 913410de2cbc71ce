# Naive attention's four trips are in it.
# Expected: misconception: an algorithm is counted, not the bound
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    q = heads * n_q * d
    k = kv_heads * n_k * d
    scores = 4 * heads * n_q * n_k
    return (2 * q + 2 * k + scores) * itemsize
