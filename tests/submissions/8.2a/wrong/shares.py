# Returns shares of all tiles.
# Expected: misconception: shares, not numbers of tiles
def causal_tiles(n, block_q, block_k):
    loaded = masked = 0
    for first in range(0, n, block_q):
        end = -(-(first + block_q) // block_k)
        loaded += end
        masked += end - (first + 1) // block_k
    tiles = (n // block_q) * (n // block_k)
    return loaded / tiles, masked / tiles
