# Every tile has tile rows.
# Expected: misconception: the last tile runs past the end
def tile_bounds(n, tile):
    return [(i, i + tile) for i in range(0, n, tile)]
