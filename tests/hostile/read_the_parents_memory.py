# tries: read the memory of the process above; must: error
import os


def echo(x):
    open(f"/proc/{os.getppid()}/mem", "rb").read(1)
    return x.copy()
