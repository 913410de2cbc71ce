# Only the last stop is one too small: min(..., n - 1).
# Expected: misconception: the last row is left out
def tile_bounds(n, tile):
    return [(i, min(i + tile, n - 1)) for i in range(0, n, tile)]
