# K and V once for each Q tile of 256: a kernel's traffic, not the bound.
# Expected: property: the answer
def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    q = heads * n_q * d
    k = kv_heads * n_k * d
    tiles = -(-n_q // 256)
    return (2 * q + 2 * k * tiles) * itemsize
