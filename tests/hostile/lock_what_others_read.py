# tries: lock a file that every other process reads; must: error
# without the sandbox: passed
import fcntl
import os


def echo(x):
    with open(os.__file__) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return x.copy()
