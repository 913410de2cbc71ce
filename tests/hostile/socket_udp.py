# tries: send a datagram on this machine; must: error
# without the sandbox: passed
import socket


def echo(x):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"answer?", ("127.0.0.1", 9))
    return x.copy()
