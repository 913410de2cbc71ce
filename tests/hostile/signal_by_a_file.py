# tries: let the system send signals to the grader whenever a file is ready; must: error
# without the sandbox: passed
import fcntl
import os
import signal


def echo(x):
    with open(os.devnull) as file:
        fcntl.fcntl(file, fcntl.F_SETOWN, os.getppid())
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_ASYNC)
    return x.copy()
