# Starts without stops.
# Expected: property: returns a tuple
def tile_bounds(n, tile):
    return list(range(0, n, tile))
