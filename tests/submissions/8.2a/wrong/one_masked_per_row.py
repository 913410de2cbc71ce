# One masked tile for each tile of queries.
# Expected: misconception: only square tiles
def causal_tiles(n, block_q, block_k):
    loaded = sum(-(-(first + block_q) // block_k) for first in range(0, n, block_q))
    return loaded, n // block_q
