# tries: ask not to be killed with the process above; must: error
# without the sandbox: passed
import ctypes
import os


def call(name, *arguments):
    """Call the C library; raise what it answers with."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = getattr(libc, name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def echo(x):
    call("prctl", 1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
    return x.copy()
