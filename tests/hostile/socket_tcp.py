# tries: connect to a TCP port of this machine; must: error
# without the sandbox: passed
import socket


def echo(x):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=1).close()
    return x.copy()
