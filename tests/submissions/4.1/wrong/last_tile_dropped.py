# n // tile tiles.
# Expected: misconception: the short last tile is dropped
def tile_bounds(n, tile):
    return [(i * tile, (i + 1) * tile) for i in range(n // tile)]
