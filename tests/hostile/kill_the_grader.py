# tries: kill the process above, then everybody; must: error
# without the sandbox: kills the zygote
import os
import signal


def echo(x):
    try:
        os.kill(os.getppid(), signal.SIGKILL)
    except OSError:
        os.kill(-1, signal.SIGKILL)
    return x.copy()
