# tries: overflow the stack; must: error, incorrect
# without the sandbox: never ends
import sys


def echo(x):
    sys.setrecursionlimit(10**9)
    return echo(x)
