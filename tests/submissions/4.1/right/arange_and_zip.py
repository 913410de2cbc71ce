# NumPy starts and stops.
import numpy as np


def tile_bounds(n, tile):
    starts = np.arange(0, n, tile)
    return list(zip(starts, np.minimum(starts + tile, n)))
