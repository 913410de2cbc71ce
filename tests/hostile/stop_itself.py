# tries: stop its own process, which then costs nothing and never ends; must: incorrect
# no control: without its limits a stopped process is stopped all the same
import signal


def echo(x):
    signal.raise_signal(signal.SIGSTOP)
    return x.copy()
