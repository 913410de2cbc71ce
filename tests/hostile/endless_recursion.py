# tries: overflow the stack; must: error, incorrect
import sys


def echo(x):
    sys.setrecursionlimit(10**9)
    return echo(x)
