# Counts scores.
# Expected: misconception: scores, not tiles
def causal_tiles(n, block_q, block_k):
    return n * (n + 1) // 2, n
