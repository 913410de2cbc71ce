# The plain way: wrong.diff holds edits of this file.
def causal_tiles(n, block_q, block_k):
    loaded = masked = 0
    for first in range(0, n, block_q):
        end = -(-(first + block_q) // block_k)
        loaded += end
        masked += end - (first + 1) // block_k
    return loaded, masked
