# tries: crash Python itself; must: error
import ctypes


def echo(x):
    ctypes.string_at(0)
