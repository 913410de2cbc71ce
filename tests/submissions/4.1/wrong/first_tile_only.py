# The return is inside the loop.
# Expected: property: the form
def tile_bounds(n, tile):
    for i in range(0, n, tile):
        return [(i, min(i + tile, n))]
