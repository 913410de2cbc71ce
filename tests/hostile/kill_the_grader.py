# tries: kill the process above, then everybody; must: error
import os
import signal


def echo(x):
    try:
        os.kill(os.getppid(), signal.SIGKILL)
    except OSError:
        os.kill(-1, signal.SIGKILL)
    return x.copy()
