# Thinks that skipping makes masks needless.
# Expected: misconception: the diagonal needs no mask
def causal_tiles(n, block_q, block_k):
    loaded = sum(-(-(first + block_q) // block_k) for first in range(0, n, block_q))
    return loaded, 0
