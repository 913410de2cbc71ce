# Whole tiles first, then the rest if there is one.
def tile_bounds(n, tile):
    whole, rest = divmod(n, tile)
    bounds = [(i * tile, i * tile + tile) for i in range(whole)]
    if rest:
        bounds += [(n - rest, n)]
    return bounds
