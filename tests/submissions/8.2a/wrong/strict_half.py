# Leaves the diagonal out.
# Expected: misconception: the diagonal is not loaded
def causal_tiles(n, block_q, block_k):
    loaded = masked = 0
    for i in range(n // block_q):
        for j in range(n // block_k):
            below = (j + 1) * block_k - 1 <= i * block_q
            reached = j * block_k <= (i + 1) * block_q - 1
            loaded += below
            masked += reached and not below
    return loaded, masked
