# tries: end the process while its cells are loaded; must: error
# without the sandbox: ends the process
import os

_code = os._exit(0)


def echo(x):
    return x.copy() if _code is None else x
