# By the number of query heads that share.
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    group = heads / kv_heads
    per_kv_head = 2 * group * n_q * d + 2 * n_k * d
    return kv_heads * per_kv_head * itemsize
