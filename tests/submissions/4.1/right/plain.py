# The plain way: wrong.diff holds edits of this file.
def tile_bounds(n, tile):
    return [(i, min(i + tile, n)) for i in range(0, n, tile)]
