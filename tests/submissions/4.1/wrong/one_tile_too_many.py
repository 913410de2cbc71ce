# n // tile + 1 tiles, always.
# Expected: misconception: one tile too many
def tile_bounds(n, tile):
    return [(i * tile, min((i + 1) * tile, n)) for i in range(n // tile + 1)]
