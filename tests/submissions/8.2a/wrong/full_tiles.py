# Counts the full tiles, not the masked ones.
# Expected: misconception: full tiles, not masked ones
def causal_tiles(n, block_q, block_k):
    loaded = full = 0
    for first in range(0, n, block_q):
        loaded += -(-(first + block_q) // block_k)
        full += (first + 1) // block_k
    return loaded, full
