# tries: move away from the processor that it was given; must: error
# without the sandbox: passed
import os


def echo(x):
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    return x.copy()
