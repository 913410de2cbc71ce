# stop is the tile's last row.
# Expected: misconception: stop is the last row of the tile
def tile_bounds(n, tile):
    return [(i, min(i + tile, n) - 1) for i in range(0, n, tile)]
