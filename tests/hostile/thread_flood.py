# tries: start threads that go on after the answer; must: error
# without the sandbox: never ends
import threading


def echo(x):
    for _ in range(100):
        threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
    return x.copy()
