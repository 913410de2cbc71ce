# tries: connect to a TCP port of this machine; must: error
import socket


def echo(x):
    socket.create_connection(("127.0.0.1", 9), timeout=1)
    return x.copy()
