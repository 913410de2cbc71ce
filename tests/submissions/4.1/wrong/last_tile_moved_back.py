# The last tile is moved back until it is full: it overlaps.
# Expected: property: the answer
def tile_bounds(n, tile):
    starts = range(0, n, tile)
    return [(max(min(i, n - tile), 0), min(i + tile, n)) for i in starts]
