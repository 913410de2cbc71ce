# Writes the sums with indices, and goes query by query.
import numpy as np


def tile_gradients(q_tile, k_tile, v_tile, do_tile, lse_row, delta_row, seen, scale):
    dq, dk, dv = np.zeros_like(q_tile), np.zeros_like(k_tile), np.zeros_like(v_tile)
    for i in range(len(q_tile)):
        for j in np.flatnonzero(seen[i]):
            p = np.exp(scale * (q_tile[i] * k_tile[j]).sum() - lse_row[i])
            ds = p * ((do_tile[i] * v_tile[j]).sum() - delta_row[i]) * scale
            dv[j] += p * do_tile[i]
            dk[j] += ds * q_tile[i]
            dq[i] += ds * k_tile[j]
    return dq, dk, dv
