# A while loop and append; pairs as lists.
def tile_bounds(n, tile):
    bounds, start = [], 0
    while start < n:
        stop = start + tile
        if stop > n:
            stop = n
        bounds.append([start, stop])
        start = stop
    return bounds
