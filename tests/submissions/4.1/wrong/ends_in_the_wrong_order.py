# The pairs in reverse order.
# Expected: property: the answer
def tile_bounds(n, tile):
    return [(i, min(i + tile, n)) for i in range(0, n, tile)][::-1]
