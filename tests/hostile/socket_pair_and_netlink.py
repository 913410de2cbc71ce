# tries: make a pair of sockets, and a netlink socket; must: error
# without the sandbox: passed
import socket


def echo(x):
    socket.socketpair()
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
    return x.copy()
