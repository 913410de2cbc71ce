# tries: end the process as if all were well; must: error
import os


def echo(x):
    os._exit(0)
