# tries: crash Python itself; must: error
# without the sandbox: ends the process
import ctypes


def echo(x):
    ctypes.string_at(0)
