# tries: close the channel, so that the grader waits for ever; must: error
# without the sandbox: ends the process
import os


def echo(x):
    os.closerange(0, 256)
    return x.copy()
