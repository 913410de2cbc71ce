# tries: fork without end; must: error
# without the sandbox: starts processes
import os


def echo(x):
    for _ in range(16):
        os.fork()
    return x.copy()
