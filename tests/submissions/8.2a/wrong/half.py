# Causal saves half.
# Expected: misconception: causal saves half
def causal_tiles(n, block_q, block_k):
    tiles = (n // block_q) * (n // block_k)
    return tiles // 2, n // block_q
