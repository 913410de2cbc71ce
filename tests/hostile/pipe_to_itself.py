# tries: make a pipe, to pass descriptors on; must: error
# without the sandbox: passed
import os


def echo(x):
    os.pipe()
    return x.copy()
