# As many tiles, all of about the same size.
# Expected: property: the answer
def tile_bounds(n, tile):
    tiles = -(-n // tile)
    return [(i * n // tiles, (i + 1) * n // tiles) for i in range(tiles)]
