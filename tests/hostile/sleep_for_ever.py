# tries: sleep, which costs no CPU time; must: incorrect
import time


def echo(x):
    time.sleep(10**6)
    return x.copy()
