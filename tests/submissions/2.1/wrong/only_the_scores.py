# The scores, and nothing else.
# Expected: misconception: only the scores are counted
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    return heads * n_q * n_k * itemsize
