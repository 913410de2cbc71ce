# tries: talk through a Unix socket; must: error
# without the sandbox: passed
import socket


def echo(x):
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("")
        server.listen()
        client.connect(server.getsockname())
    return x.copy()
