# Uses T (T + 1) / 2 whatever the shape of the tiles.
# Expected: misconception: only square tiles
def causal_tiles(n, block_q, block_k):
    t = n // block_q
    return t * (t + 1) // 2, t
