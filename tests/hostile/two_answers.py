# tries: send answers ahead, so that later cases are not computed; must: incorrect, error
# no control: what it sends is what any answer is, only earlier
import gc

import numpy as np


def echo(x):
    (channel,) = [thing for thing in gc.get_objects() if type(thing).__name__ == "Channel"]
    for _ in range(20):
        channel.send({"result": np.array(x), "ledger": None, "allocated": None, "tampering": None})
    return x.copy()
