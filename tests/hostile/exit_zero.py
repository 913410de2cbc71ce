# tries: end the process as if all were well; must: error
# without the sandbox: ends the process
import os


def echo(x):
    os._exit(0)
