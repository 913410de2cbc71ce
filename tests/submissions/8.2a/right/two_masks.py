# Looks at every tile's corners.
def causal_tiles(n, block_q, block_k):
    loaded = masked = 0
    for i in range(n // block_q):
        for j in range(n // block_k):
            if j * block_k > (i + 1) * block_q - 1:
                continue
            loaded += 1
            masked += (j + 1) * block_k - 1 > i * block_q
    return loaded, masked
