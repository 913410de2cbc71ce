# Notes in a dict, in longdouble.
import math

import numpy as np


def stream_denominator(piles):
    state = {"m": -math.inf, "l": 0.0}
    for j, _ in enumerate(range(len(piles))):
        s = np.asarray(piles[j], dtype=np.longdouble)
        top = max(state["m"], max(s))
        state = {"m": top, "l": state["l"] * np.exp(state["m"] - top) + sum(np.exp(s - top))}
    return tuple(state.values())
