# Returns the masked tiles first.
# Expected: misconception: the two values are exchanged
def causal_tiles(n, block_q, block_k):
    loaded = masked = 0
    for first in range(0, n, block_q):
        end = -(-(first + block_q) // block_k)
        loaded += end
        masked += end - (first + 1) // block_k
    return masked, loaded
