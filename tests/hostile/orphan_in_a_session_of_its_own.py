# tries: leave a process behind that has left the session; must: error
# without the sandbox: starts processes
import os
import time


def echo(x):
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.waitpid(child, 0)  # the orphan lives now
    return x.copy()
