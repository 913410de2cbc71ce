# yield gives a generator, not a list.
# Expected: property: returns a value
def tile_bounds(n, tile):
    for i in range(0, n, tile):
        yield i, min(i + tile, n)
