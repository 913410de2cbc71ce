# Returns one number.
# Expected: property: returns a tuple
def causal_tiles(n, block_q, block_k):
    t = n // block_q
    return t * (t + 1) // 2
