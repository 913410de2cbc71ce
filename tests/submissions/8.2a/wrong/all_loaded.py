# Loads every tile.
# Expected: misconception: nothing is skipped
def causal_tiles(n, block_q, block_k):
    masked = 0
    for first in range(0, n, block_q):
        masked += -(-(first + block_q) // block_k) - (first + 1) // block_k
    return (n // block_q) * (n // block_k), masked
