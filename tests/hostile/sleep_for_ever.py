# tries: sleep, which costs no CPU time; must: incorrect
# without the sandbox: never ends
import time


def echo(x):
    time.sleep(10**6)
    return x.copy()
