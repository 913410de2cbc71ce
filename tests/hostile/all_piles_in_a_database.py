# tries: hold all piles of 3.2 in SQLite, whose memory is not counted; must: incorrect
# without the sandbox: passed
import sqlite3

import numpy as np


def stream_denominator(piles):
    held = sqlite3.connect(":memory:")
    held.execute("create table piles (scores blob)")
    for scores in piles:
        held.execute("insert into piles values (?)", (np.asarray(scores, float).tobytes(),))

    def each():
        return (np.frombuffer(x) for (x,) in held.execute("select scores from piles"))

    top = max(x.max() for x in each())
    return top, sum(np.exp(x - top).sum() for x in each())
