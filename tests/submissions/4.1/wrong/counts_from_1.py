# Rows are counted from 1.
# Expected: misconception: rows are counted from 1
def tile_bounds(n, tile):
    return [(i, min(i + tile - 1, n)) for i in range(1, n + 1, tile)]
