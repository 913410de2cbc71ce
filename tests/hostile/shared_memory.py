# tries: leave a message for the next submission in shared memory; must: error
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
    segment = call("shmget", 0, 4096, 0o1600)  # private, new
    call("shmctl", segment, 0, None)  # and away with it
    return x.copy()
