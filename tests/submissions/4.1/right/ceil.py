# math.ceil counts the tiles.
import math


def tile_bounds(n, tile):
    edges = [i * tile for i in range(math.ceil(n / tile))] + [n]
    return [(edges[i], edges[i + 1]) for i in range(len(edges) - 1)]
