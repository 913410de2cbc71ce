# tries: watch which files others read; must: error
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
    os.close(call("inotify_init1", 0))
    return x.copy()
