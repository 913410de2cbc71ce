# tries: leave a message for the next submission in a queue; must: error
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
    queue = call("msgget", 0, 0o1600)
    call("msgctl", queue, 0, None)
    return x.copy()
