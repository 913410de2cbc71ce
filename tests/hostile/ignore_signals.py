# tries: ignore every signal that can be ignored, and loop; must: incorrect
# without the sandbox: never ends
import signal


def echo(x):
    for number in range(1, 64):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
