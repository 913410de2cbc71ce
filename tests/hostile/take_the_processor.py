# tries: make itself more important, or others less; must: error
# without the sandbox: passed
import os


def echo(x):
    os.nice(1)
    return x.copy()
