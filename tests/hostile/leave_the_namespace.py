# tries: leave the file system that it shares; must: error
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
    call("unshare", 0x200)  # CLONE_FS, which asks for no privilege
    return x.copy()
