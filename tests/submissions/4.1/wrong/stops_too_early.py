# range(0, n - tile + 1, tile) leaves out the short tile.
# Expected: misconception: the short last tile is dropped
def tile_bounds(n, tile):
    return [(i, i + tile) for i in range(0, n - tile + 1, tile)]
