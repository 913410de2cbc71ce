# (start, length), not (start, stop).
# Expected: misconception: the length in place of stop
def tile_bounds(n, tile):
    return [(i, min(tile, n - i)) for i in range(0, n, tile)]
