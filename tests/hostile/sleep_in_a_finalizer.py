# tries: sleep when the answer is sent and its objects go; must: incorrect
# without the sandbox: never ends
import time


class Slow:
    def __del__(self):
        time.sleep(10**6)


def echo(x):
    slow = Slow()
    del slow
    return x.copy()
