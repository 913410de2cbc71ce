# tries: fork without end; must: error
import os


def echo(x):
    for _ in range(16):
        os.fork()
    return x.copy()
