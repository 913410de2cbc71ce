# tries: take a handle to the process above, which outlives its number; must: error
# without the sandbox: passed
import os


def echo(x):
    os.pidfd_open(os.getppid())
    return x.copy()
