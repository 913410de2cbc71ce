# One tensor after the other.
from math import prod


def least_bytes(n_q, n_k, d, heads, kv_heads, itemsize):
    q = o = (heads, n_q, d)
    k = v = (kv_heads, n_k, d)
    total = 0
    for shape in (q, k, v, o):
        total += itemsize * prod(shape)
    return total
