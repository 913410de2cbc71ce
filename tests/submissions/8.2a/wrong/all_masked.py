# Masks every tile that is loaded.
# Expected: misconception: every loaded tile is masked
def causal_tiles(n, block_q, block_k):
    loaded = sum(-(-(first + block_q) // block_k) for first in range(0, n, block_q))
    return loaded, loaded
