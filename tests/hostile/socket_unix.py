# tries: talk through a Unix socket; must: error
import socket


def echo(x):
    socket.socket(socket.AF_UNIX).connect("\0anything")
    return x.copy()
