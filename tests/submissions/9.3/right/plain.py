# The plain way: right.diff and wrong.diff are edits of this file.
import numpy as np


def tile_gradients(q_tile, k_tile, v_tile, do_tile, lse_row, delta_row, seen, scale):
    """Return what a tile adds to dQ (block_q, d), dK (block_k, d) and dV (block_k, d).

    q_tile, do_tile (block_q, d); k_tile, v_tile (block_k, d); lse_row, delta_row (block_q,);
    seen (block_q, block_k), boolean. All numbers are float64.
    """
    s = scale * q_tile @ k_tile.T  # (block_q, block_k)
    lse_row = np.where(np.isneginf(lse_row), np.inf, lse_row)  # sees nothing: exp(s - inf) = 0
    p = np.exp(np.where(seen, s, -np.inf) - lse_row[:, None])
    dp = do_tile @ v_tile.T
    ds = p * (dp - delta_row[:, None])
    return scale * ds @ k_tile, scale * ds.T @ q_tile, p.T @ do_tile
